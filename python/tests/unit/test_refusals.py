"""What each adapter refuses, by the name of the setting to change. A trainer that is not installed has a stand-in with the
names that its adapter imports; test/interop/refusals.test.ts runs this with the trainers themselves.
"""

import asyncio
import contextlib
import enum
import importlib
import importlib.util
import sys
import threading
import types
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from unittest import mock

import two_turns
from durable_rollouts.integrations.own import Own

IMPORTED = {
    "accelerate.state": ("AcceleratorState", "PartialState"),
    "accelerate.utils": ("DistributedType", "broadcast_object_list", "extract_model_from_parallel", "gather_object"),
    "safetensors.torch": ("save_file",),
    "torch": ("Tensor",),
    "torch.distributed.tensor": ("DTensor",),
    "transformers": ("TrainerCallback",),
    "trl.experimental.async_grpo.async_rollout_worker": ("RolloutSample",),
    "omegaconf": ("OmegaConf",),
    "ray": (),
    "prime_rl.trainer.batch": ("build_bin_cost", "prepare_batch"),
    "prime_rl.transports.rollouts.types": ("TrainingSample",),
    "verl.experimental.agent_loop.agent_loop": ("AgentLoopBase", "AgentLoopMetrics", "AgentLoopOutput"),
    "verl.trainer.ppo.v1.trainer_base": ("register_trainer",),
    "verl.trainer.ppo.v1.trainer_colocate_async": ("PPOTrainerColocateAsync",),
    "verl.trainer.ppo.v1.trainer_sync": ("PPOTrainerSync",),
    "verl.utils": ("tensordict_utils",),
}


class OmegaConf:
    create = to_container = staticmethod(lambda given: given)


class DistributedType(enum.Enum):
    FSDP = "FSDP"
    MEGATRON_LM = "MEGATRON_LM"
    XLA = "XLA"


GIVEN = {"DistributedType": DistributedType, "OmegaConf": OmegaConf, "register_trainer": lambda name: lambda cls: cls}


def is_there(module):
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def stand_ins():
    """Modules with nothing but the names that are imported, for trainers that are not installed."""
    made = {}
    for module, names in IMPORTED.items():
        if is_there(module):
            continue
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            made.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
        for name in names:
            setattr(made[module], name, GIVEN.get(name, type(name, (), {})))
    return made


def adapters(*names):
    """Modules of integrations. They keep their stand-ins, which nothing else finds."""
    made = stand_ins()
    sys.modules.update(made)
    try:
        return [importlib.import_module(f"durable_rollouts.integrations.{name}") for name in names]
    finally:
        for module in made:
            del sys.modules[module]


FILTERS = {
    "temperature": 0,
    "greedy": True,
    "top_p": 0.9,
    "top_k": 20,
    "min_p": 0.05,
    "min_tokens": 1,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
    "bad_words": ["no"],
    "structured_outputs": {"json_object": True},
}
"""Of ``generation``: after each of them rows are of a distribution that no trainer's loss has."""
SAME = {"top_p": 1, "top_k": 0, "min_p": 0.0, "bad_words": [], "structured_outputs": None, "stop_strings": ["x"], "stop_token_ids": [3], "ignore_eos": True}
"""These leave it as it is."""


def asked_by_trl(rollouts, generation, temperature=1.0):
    """The first rollouts that a trainer of TRL's asks for: nothing is played."""
    made = rollouts.Rollouts(None, [{"prompt": "a", "task_name": "t"}], run="r", generation=generation)
    args = SimpleNamespace(use_vllm=False, mask_truncated_completions=False, temperature=temperature)
    made._ids = mock.Mock(side_effect=Accepted)
    made(["a"], SimpleNamespace(args=args))


class Accepted(Exception):
    pass


class Config(dict):
    """A configuration of nested names."""

    def __getattr__(self, name):
        value = self[name]
        return Config(value) if isinstance(value, dict) else value


def changed(given, path, value):
    name, _, rest = path.partition(".")
    return Config({**given, name: changed(given.get(name, {}), rest, value) if rest else value})


class Refusals(unittest.TestCase):
    def refused(self, setting, make, kind=ValueError):
        with self.subTest(setting), self.assertRaises(kind) as raised:
            make()
        self.assertRegex(str(raised.exception), rf"^(\S+: )?{setting}.*expected")

    def test_of_trls_grpo_trainer(self):
        rollouts, publish, rows, tensors = adapters("trl.rollouts", "trl.publish", "trl.rows", "trl.tensors")
        fits = {"use_vllm": False, "mask_truncated_completions": False}
        for name in ("use_vllm", "mask_truncated_completions"):
            args = SimpleNamespace(**{**fits, name: True})
            self.refused(name, lambda args=args: rollouts.check_settings(args))
        run = SimpleNamespace(run="r")
        callback = publish.Publish(run, None, "weights")
        for name, launched in (
            ("fsdp_version", {"distributed_type": tensors.DistributedType.FSDP, "fsdp_plugin": SimpleNamespace(fsdp_version=1)}),
            ("distributed_type", {"distributed_type": tensors.DistributedType.MEGATRON_LM}),
        ):
            with mock.patch.object(publish, "AcceleratorState", lambda launched=launched: SimpleNamespace(**launched)):
                self.refused(name, lambda: callback.on_train_begin(SimpleNamespace(**fits), None, None, model=object()))
        self.refused("folder", lambda: publish.Publish(run, None))
        self.refused("folder", lambda: publish.Publish(run, None, "weights", send=True))
        self.refused("kind", lambda: publish.Publish(run, None, send=True, kind="lora"))
        self.refused("temperature", lambda: asked_by_trl(rollouts, {}, temperature=0.7))
        ended = {"stop_reason": "terminated", "terminated": True, "truncated": False, "loss_multiplier": 0.5}
        self.refused("loss_multiplier", lambda: rows.columns_of([two_turns.row(**ended)]))

    def test_of_trls_async_grpo_trainer(self):
        worker, _ = adapters("trl.worker", "trl.transfer")
        request = {"samples": [{}], "groups_per_step": 2, "num_repeats": 4, "max_lag": 1}
        fits = {"max_staleness": 2, "token_budget": 0, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
        args = {**fits, "temperature": 1.0, "max_steps": 5, "world_size": 1, "weight_sync_steps": 1}

        def made(of=request, **change):
            return worker.RolloutWorker(None, "s", of, SimpleNamespace(**{**args, **change}))

        made()
        self.refused("max_lag", lambda: made({**request, "max_lag": 0}))
        self.refused("max_staleness", lambda: made(max_staleness=1))
        self.refused("token_budget", lambda: made(token_budget=4096))
        self.refused("temperature", lambda: made(temperature=0.7))
        self.refused("max_steps", lambda: made(max_steps=-1))
        self.refused("per_device_train_batch_size", lambda: made(world_size=2))
        started = made()
        self.refused("callbacks", started.start, RuntimeError)
        # Its own sync of adapters (PEFT) is another transfer, too.
        started._stream = object()
        self.refused("weight_transfer", started.start, RuntimeError)

    def test_a_transfer_of_trls_leaves_no_other_rank_waiting(self):
        worker, transfer = adapters("trl.worker", "trl.transfer")

        class Away:
            def __getattr__(self, name):
                raise ConnectionError(name)

        course = SimpleNamespace(replays=False)
        made = transfer.WeightTransfer(SimpleNamespace(course=course, owned=lambda policy, **_: Own(policy, "r")), Away(), "weights")
        for each in (made.init_weight_transfer, made.pause, made.resume, made.destroy):
            each()
        tensor = mock.MagicMock()
        used = iter([("a", tensor), ("b", tensor)])
        with self.assertRaises(ConnectionError):
            made.send_weights(used)
        self.assertEqual(list(used), [], "other ranks take part in each tensor")

    @unittest.skipUnless(is_there("msgspec"), "prime-rl's settings are read with msgspec, which is not installed")
    def test_of_prime_rl(self):
        [settings] = adapters("prime_rl.settings")
        fits = Config(
            {
                "batch_size": 8,
                "group_size": 4,
                "seq_len": 16,
                "rollout_transport": {"type": "filesystem"},
                "durable_rollouts": {"stream": "s", "request": {"samples": [{}]}},
            }
        )
        settings.settings_of(fits)
        for setting, value in (
            ("rollout_transport.type", "zmq"),
            ("weight_broadcast.type", "nccl"),
            ("algo", {"type": "opd"}),
            ("batch_size", 6),
            ("durable_rollouts.request.max_seq_len", 17),
        ):
            self.refused(setting, lambda path=setting, value=value: settings.settings_of(changed(fits, path, value)))
        with self.assertRaisesRegex(ValueError, "unknown field `lora` - at `.\\.model`"):
            settings.settings_of(changed(fits, "model.lora", {"rank": 8}))

    def test_of_verl(self):
        loop, trainer = adapters("verl.agent_loop", "verl.trainer")
        rollout = {"name": "vllm", "free_cache_engine": False}
        fits = Config(
            {
                "actor_rollout_ref": {"rollout": rollout, "model": {"lora_rank": 0}},
                "trainer": {"experiment_name": "run-3", "v1": {"trainer_mode": "durable_sync"}},
            }
        )
        trainer.check_settings(fits)
        for setting, value in (
            ("actor_rollout_ref.rollout.name", "sglang"),
            ("actor_rollout_ref.rollout.free_cache_engine", True),
            ("actor_rollout_ref.model.lora_rank", 8),
        ):
            self.refused(setting, lambda path=setting, value=value: trainer.check_settings(changed(fits, path, value)))
        with mock.patch.object(loop.AgentLoopBase, "__init__", lambda self, **_: None):
            made = object.__new__(loop.DurableAgentLoop)
            made.config = fits
            # V0 has no such trainer.
            self.refused("trainer.v1.trainer_mode", lambda: made.__init__("math"))
            made.config = changed(fits, "trainer.v1.durable_rollouts", True)
            made.__init__("math")
            self.refused("settings.generation.top_p", lambda: made.__init__("math", {"generation": {"top_p": 0.5}}))

    def test_a_filter_that_no_loss_has_is_refused_in_every_adapter(self):
        rollouts, worker, loop, trainer = adapters("trl.rollouts", "trl.worker", "verl.agent_loop", "verl.trainer")
        # Its settings are read with msgspec.
        settings = adapters("prime_rl.settings") if is_there("msgspec") else []
        request = {"samples": [{}], "groups_per_step": 2, "num_repeats": 4, "max_lag": 1}
        args = {"max_staleness": 2, "token_budget": 0, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
        args = {**args, "max_steps": 5, "world_size": 1, "weight_sync_steps": 1}

        def of_trl(generation):
            with contextlib.suppress(Accepted):
                asked_by_trl(rollouts, generation, generation.get("temperature", 1))

        def of_async_trl(generation):
            given = SimpleNamespace(**args, temperature=generation.get("temperature", 1))
            worker.RolloutWorker(None, "s", {**request, "generation": generation}, given)

        def of_prime_rl(generation):
            given = {"stream": "s", "request": {"samples": [{}], "generation": generation}}
            fits = {"batch_size": 8, "rollout_transport": {"type": "filesystem"}, "durable_rollouts": given}
            settings[0].settings_of({**fits, "train": {"sampling": {"temperature": generation.get("temperature", 1)}}})

        def of_verl(generation):
            """Temperature, top_p and top_k are settings of its own."""
            own = {name: generation[name] for name in ("temperature", "top_p", "top_k") if name in generation}
            rollout = {"name": "vllm", "free_cache_engine": False, **own}
            fits = {"actor_rollout_ref": {"rollout": rollout, "model": {}}, "trainer": {"experiment_name": "r", "v1": {"durable_rollouts": True}}}
            trainer.check_settings(Config(fits))
            with mock.patch.object(loop.AgentLoopBase, "__init__", lambda self, **_: None):
                made = object.__new__(loop.DurableAgentLoop)
                made.config = Config(fits)
                made.__init__("math", {"generation": {name: value for name, value in generation.items() if name not in own}})

        for make in (of_trl, of_async_trl, *([of_prime_rl] if settings else []), of_verl):
            make(SAME)
            for name, value in FILTERS.items():
                with self.subTest(make.__name__):
                    self.refused(rf"\S*{name}", lambda make=make, given={name: value}: make(given))

    def test_raw_logprobs_beside_another_temperature_than_1_are_refused_in_every_adapter(self):
        rollouts, worker, loop = adapters("trl.rollouts", "trl.worker", "verl.agent_loop")
        raw = two_turns.row(logprobs_mode="raw", task_name="t")

        async def played(*_, **__):
            return raw

        def of_trl():
            made = rollouts.Rollouts(None, [{"prompt": "a", "task_name": "t"}], run="r", generation={"temperature": 0.7})
            made._client, made._ids = SimpleNamespace(_aio=SimpleNamespace(rollout=played)), lambda *_: ["r"]
            args = SimpleNamespace(use_vllm=False, mask_truncated_completions=False, temperature=0.7)
            made(["a"], SimpleNamespace(args=args))

        def of_async_trl():
            made = object.__new__(worker.RolloutWorker)
            made._temperature, made._own = 0.7, None
            made._samples(SimpleNamespace(step=0, rows=lambda: [raw]))

        def of_verl(temperature=0.7, **row):
            made = object.__new__(loop.DurableAgentLoop)
            made._settings, made._task_name, made._id = {}, "t", lambda *_: "r"
            made._labels = SimpleNamespace(foreign=lambda rows: None)
            made.rollout_config = SimpleNamespace(prompt_length=8, response_length=8)
            sampling = {"temperature": temperature, "top_p": 1, "top_k": -1, "logprobs": True}
            client = SimpleNamespace(rollout=played)
            with mock.patch.object(loop, "_client", mock.AsyncMock(return_value=client)), mock.patch.object(loop, "outputs_of", lambda *_, **__: []):
                asyncio.run(made.run(sampling, raw_prompt=[], **row))

        def of_prime_rl():
            adapters("prime_rl.samples")[0].samples_of([raw], 0.7)

        for make in (of_trl, of_async_trl, *([of_prime_rl] if is_there("msgspec") else []), lambda: of_verl(durable_place="0.0")):
            self.refused("logprobs_mode", make)
        # A validation, and a baseline, train nothing.
        of_verl()
        of_verl(0, durable_place="0.0")

    def test_of_an_engine_of_verls_without_its_development_mode(self):
        [trainer] = adapters("verl.trainer")
        with server(404) as url:
            self.refused(r"\+ray_kwargs.ray_init.runtime_env.env_vars.VLLM_SERVER_DEV_MODE", lambda: trainer.check_control(f"{url}/v1"))
        with server(200) as url:
            trainer.check_control(f"{url}/v1")


@contextlib.contextmanager
def server(status):
    class Paused(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == "/is_paused" else 500)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            """Nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Paused)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}"
    finally:
        listening.shutdown()
        listening.server_close()
