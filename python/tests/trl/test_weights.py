"""How the integration with TRL makes a trainer's weights whole, and which of them it publishes. Needs TRL and PEFT, and no server."""

import json
import os
import socket
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.multiprocessing as processes
from accelerate import Accelerator, DistributedType
from accelerate.state import AcceleratorState
from durable_rollouts import PolicyUpdateFailed
from durable_rollouts.integrations.own import Own
from durable_rollouts.integrations.trl.files import Files
from durable_rollouts.integrations.trl.lora import check_adapter, check_model, path_below
from durable_rollouts.integrations.trl.publish import Publish
from durable_rollouts.integrations.trl.ranks import told
from durable_rollouts.integrations.trl.sending import Lead, Sending
from durable_rollouts.integrations.trl.tensors import adapter_of, base_of, check_ranks, collected, whole_of
from peft import IA3Config, LoraConfig, get_peft_model
from safetensors.torch import load_file
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

Accelerator(cpu=True)
LACKS = "http://e/v1 lacks /v1/load_lora_adapter (vLLM has them with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True)"


def tiny(*, tied=True, dtype=torch.float32):
    torch.manual_seed(5)
    size = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    return Qwen2ForCausalLM(Qwen2Config(**size, num_key_value_heads=1, tie_word_embeddings=tied, dtype=dtype)).to(dtype)


def adapted(model=None, **change):
    """With an adapter that is not nothing."""
    settings = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"], **change}
    found = get_peft_model(model or tiny(), LoraConfig(**settings))
    torch.manual_seed(6)
    for name, one in found.named_parameters():
        if ".lora_B." in name:
            torch.nn.init.normal_(one, std=0.1)
    return found


class Policy:
    """Of a service, as far as ``Own`` asks it. refuses: by kind of weights, with what an update of them is refused"""

    service = "default"

    def __init__(self, record=None, **refuses):
        self.record, self._refuses = record, refuses
        self.published, self.files = [], []

    def status(self):
        return {"record": self.record}

    def publish(self, version, weights, *, holder, **options):
        lora = isinstance(weights, dict)
        kind, path = ("lora", weights["path"]) if lora else ("checkpoint", weights)
        if kind in self._refuses:
            raise PolicyUpdateFailed(self._refuses[kind])
        earlier = self.record or {"version": None, "weights": {}}
        base = {"base": earlier["version"]} if lora and earlier["version"] is not None else {}
        if lora and "base" in earlier["weights"].get(str(earlier["version"]), {}):
            base = {"base": earlier["weights"][str(earlier["version"])]["base"]}
        if lora and earlier["weights"].get(str(earlier["version"]), {}).get("kind") == "lora" and "base" not in earlier["weights"][str(earlier["version"])]:
            base = {}
        known = {**earlier["weights"], str(version): {"kind": kind, "path": path, **base}}
        self.record = {"version": version, "target": version, "weights": known}
        self.published.append((version, kind, Path(path).parent.name))
        self.files.append(load_file(next(Path(path).glob("*.safetensors"))))
        return {}


class Adapters(unittest.TestCase):
    def test_one_that_engines_do_not_load_is_refused_by_the_name_of_its_setting(self):
        check_adapter(adapted(use_rslora=True))
        for change, name in (
            ({"modules_to_save": ["lm_head"]}, "modules_to_save: expected None"),
            ({"use_dora": True}, "use_dora: expected False"),
            ({"bias": "lora_only"}, "bias: expected 'none'"),
            ({"trainable_token_indices": [1]}, "trainable_token_indices: expected None"),
            ({"init_lora_weights": "pissa"}, "init_lora_weights: expected one that leaves"),
            ({"target_modules": ["q_proj", "embed_tokens"]}, "target_modules: expected no embeddings.* got model.embed_tokens"),
        ):
            with self.assertRaisesRegex(ValueError, f"^peft_config.{name}"):
                check_adapter(adapted(tiny(tied=False), **change))
        with self.assertRaisesRegex(ValueError, r"^peft_config: expected one active adapter, of type LORA, got \['default'\] of IA3"):
            check_adapter(get_peft_model(tiny(), IA3Config(target_modules=["k_proj"], feedforward_modules=[])))

    def test_weights_and_ways_that_cannot_be_published_are_refused_by_name(self):
        model = tiny()
        check_model(model, "auto")
        with self.assertRaisesRegex(ValueError, "^kind: expected auto or checkpoint for a model without peft_config"):
            check_model(model, "lora")
        quantised = torch.nn.Linear(2, 2)
        quantised.weight = torch.nn.Parameter(torch.zeros(2, 2, dtype=torch.int8), requires_grad=False)
        with self.assertRaisesRegex(ValueError, "^dtype: expected weights of floating-point numbers, got torch.int8 of weight"):
            check_model(quantised, "auto")
        with self.assertRaisesRegex(ValueError, "^fsdp_version: expected 2.* got 1"):
            check_ranks(SimpleNamespace(distributed_type="FSDP", fsdp_plugin=SimpleNamespace(fsdp_version=1)))
        with self.assertRaisesRegex(ValueError, "^distributed_type: expected FSDP.* got MEGATRON_LM"):
            check_ranks(SimpleNamespace(distributed_type=DistributedType.MEGATRON_LM))
        rollouts = SimpleNamespace(run="r")
        for given, name in (({}, "folder"), ({"folder": "w", "send": True}, "folder"), ({"send": True, "kind": "lora"}, "kind"), ({"kind": "full"}, "kind")):
            with self.assertRaisesRegex(ValueError, f"^{name}: expected"):
                Publish(rollouts, None, **given)


class Tensors(unittest.TestCase):
    def test_a_checkpoint_has_each_tensor_once_as_the_model_itself_saves_it(self):
        for tied in (True, False):
            model = tiny(tied=tied)
            with tempfile.TemporaryDirectory() as folder:
                model.save_pretrained(folder)
                expected = load_file(f"{folder}/model.safetensors")
            found = collected(whole_of(model))
            self.assertEqual(set(found), set(expected))
            for name, one in expected.items():
                self.assertTrue(torch.equal(found[name], one) and found[name].dtype == one.dtype, name)

    def test_an_adapter_is_added_as_peft_adds_it_and_the_trainers_weights_stay(self):
        for change in ({}, {"use_rslora": True}, {"rank_pattern": {"down_proj": 8}}):
            model = adapted(**change)
            before = {name: one.clone() for name, one in model.named_parameters()}
            found, alone = collected(whole_of(model)), collected(whole_of(model, merged=False))
            for name, one in model.named_parameters():
                self.assertTrue(torch.equal(before[name], one), name)
            for name, one in tiny().named_parameters():
                self.assertTrue(torch.equal(alone[name], one), name)
            merged = model.merge_and_unload()
            self.assertEqual(set(found), {name for name, _ in merged.named_parameters()})
            for name, one in merged.named_parameters():
                self.assertTrue(torch.equal(found[name], one), name)
            self.assertFalse(torch.equal(found["model.layers.0.self_attn.q_proj.weight"], alone["model.layers.0.self_attn.q_proj.weight"]))

    def test_weights_of_few_bits_keep_them(self):
        found = collected(whole_of(adapted(tiny(dtype=torch.bfloat16))))
        self.assertEqual({one.dtype for one in found.values()}, {torch.bfloat16})


class Published(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name).resolve() / "weights"

    def files(self, policy, kind="auto"):
        return Files(Own(policy, "r"), self.folder, run="r", kind=kind, options={})

    def test_an_adapter_goes_alone_on_the_weights_that_engines_begin_with(self):
        policy, model = Policy(), adapted()
        files = self.files(policy)
        for _ in range(3):
            files.bring(model)
        self.assertEqual(policy.published, [(1, "lora", "weights"), (2, "lora", "weights"), (3, "lora", "weights")])
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            expected = load_file(f"{folder}/adapter_model.safetensors")
            mine, theirs = (json.loads((Path(one) / "adapter_config.json").read_text()) for one in (self.folder / "3", folder))
        self.assertEqual(mine, theirs)
        self.assertEqual(set(policy.files[-1]), set(expected))
        for name, one in expected.items():
            self.assertTrue(torch.equal(policy.files[-1][name], one), name)

    def test_on_other_weights_the_model_goes_first_and_once_also_after_a_restart(self):
        policy = Policy({"version": 7, "target": 7, "weights": {"7": {"kind": "checkpoint", "path": "/elsewhere/7"}}})
        with self.assertLogs("durable_rollouts", "WARNING") as logs:
            self.files(policy).bring(adapted())
        self.assertRegex(logs.output[0], "r: the model is published without its adapter, since engines have other weights .*/elsewhere/7")
        again = self.files(policy)
        for _ in range(2):
            again.bring(adapted())
        self.assertEqual(policy.published, [(8, "checkpoint", "r-base"), (9, "lora", "weights"), (10, "lora", "weights"), (11, "lora", "weights")])
        for name, one in tiny().named_parameters():
            self.assertTrue(torch.equal(policy.files[0][name], one), name)

    def test_engines_without_adapters_get_the_whole_model_which_is_said_and_stays_so_after_a_restart(self):
        policy, model = Policy(lora=LACKS), adapted()
        for _ in range(2):
            with self.assertLogs("durable_rollouts", "WARNING") as logs:
                files = self.files(policy)
                for _ in range(2):
                    files.bring(model)
            self.assertEqual(len(logs.output), 1)
        self.assertEqual([kind for _, kind, _ in policy.published], ["checkpoint"] * 4)
        expected = collected(whole_of(model))
        for name, one in expected.items():
            self.assertTrue(torch.equal(policy.files[-1][name], one), name)
        loaded = AutoModelForCausalLM.from_pretrained(self.folder / str(policy.published[-1][0]))
        for name, one in loaded.named_parameters():
            self.assertTrue(torch.equal(expected[name], one), name)

    def test_what_waiting_does_not_mend_is_raised_at_once(self):
        rank = "adapter: Call to add_lora method failed: LoRA rank 16 is greater than max_lora_rank 8."
        with self.assertRaisesRegex(PolicyUpdateFailed, "LoRA rank 16 is greater"):
            self.files(Policy(lora=rank)).bring(adapted())
        with self.assertRaisesRegex(PolicyUpdateFailed, " lacks "):
            self.files(Policy(lora=LACKS), kind="lora").bring(adapted())

    def test_folders_of_adapters_go_when_no_engine_needs_them(self):
        policy = Policy()
        files, model = self.files(policy), adapted()
        inner = policy.publish
        policy.publish = lambda version, *given, **named: {**inner(version, *given, **named), "may_delete": [str(self.folder / str(version - 3))]}
        for _ in range(5):
            files.bring(model)
        self.assertEqual(sorted(one.name for one in self.folder.iterdir()), ["3", "4", "5"])

    def test_which_weights_are_below_an_adapter(self):
        self.assertIsNone(path_below(None))
        checkpoint, lora = {"kind": "checkpoint", "path": "/a/1"}, {"kind": "lora", "path": "/a/2"}
        for version, weights, below in (
            (None, {}, None),
            (1, {"1": checkpoint}, "/a/1"),
            (2, {"2": lora}, None),
            (2, {"1": checkpoint, "2": {**lora, "base": 1}}, "/a/1"),
            (3, {"3": {"kind": "transfer"}}, ""),
        ):
            self.assertEqual(path_below({"version": version, "weights": weights}), below)


class Transfers:
    """A policy whose engines take what is sent. fails: at the first, in the middle"""

    service = "default"

    def __init__(self, fails=0):
        self.got, self.asked, self._fails = [], [], fails

    def transfer(self, **options):
        self.asked.append(options)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def take(self, engines, tensors):
        got = {}
        for at, (name, one) in enumerate(tensors):
            if self._fails and at == 3:
                self._fails -= 1
                raise PolicyUpdateFailed("holder: cut in the middle")
            assert (one.shape, one.dtype) == (one.full_tensor().shape, torch.float32)
            got[name] = one.full_tensor()
        self.got.append(got)


class Sent(unittest.TestCase):
    def test_tensors_go_with_the_adapter_in_them_under_the_run_that_holds_the_service(self):
        policy, model = Transfers(), adapted()
        Sending(Own(policy, "r", take_over=True), policy, policy.take, options={"groups": 1}).bring(model)
        self.assertEqual(policy.asked, [{"same": True, "groups": 1, "holder": "r", "take_over": True}])
        for name, one in collected(whole_of(model)).items():
            self.assertTrue(torch.equal(policy.got[0][name], one), name)

    def test_a_tensor_is_not_made_whole_behind_the_end_of_its_transfer(self):
        lead = Lead(whole_of(tiny()))
        lead.end()
        with self.assertRaisesRegex(RuntimeError, "the transfer has ended"):
            lead.tensors[0][1].full_tensor()


def shards(rank, port, folder):
    """One of two processes of FSDP2."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), ACCELERATE_USE_CPU="true")
    AcceleratorState._reset_state(reset_partial_state=True)
    Accelerator(cpu=True)
    for name, model in (("tied", tiny()), ("adapted", adapted())):
        base = base_of(model)
        for layer in base.model.layers:
            fully_shard(layer)
        fully_shard(model)
        assert any(hasattr(one, "full_tensor") for one in model.parameters())
        torch.save((collected(whole_of(model)), collected(adapter_of(model))), f"{folder}/{name}-{rank}")
    policy = Transfers(fails=1)
    sending = Sending(Own(policy, "r"), policy, policy.take, options={})
    try:
        sending.bring(model)
        raise SystemExit("expected a failure")
    except (PolicyUpdateFailed, RuntimeError) as error:
        Path(folder, f"failed-{rank}").write_text(str(error))
    sending.bring(model)
    torch.save((policy.got, told(lambda: 17)), f"{folder}/sent-{rank}")
    torch.distributed.destroy_process_group()


class Sharded(unittest.TestCase):
    def test_two_ranks_make_the_tensors_of_one_and_a_failure_of_rank_0_is_told_to_the_other(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with tempfile.TemporaryDirectory() as folder:
            processes.start_processes(shards, (port, folder), nprocs=2, start_method="fork")
            for name, model in (("tied", tiny()), ("adapted", adapted())):
                whole, adapter = torch.load(f"{folder}/{name}-0")
                for found, expected in ((whole, collected(whole_of(model))), (adapter, collected(adapter_of(model)))):
                    self.assertEqual(list(found), list(expected))
                    for one, tensor in expected.items():
                        self.assertTrue(torch.equal(found[one], tensor), one)
                self.assertEqual(torch.load(f"{folder}/{name}-1"), ({}, {}))
            self.assertEqual(Path(folder, "failed-0").read_text(), "holder: cut in the middle")
            self.assertEqual(Path(folder, "failed-1").read_text(), "rank 0: PolicyUpdateFailed: holder: cut in the middle")
            [got], number = torch.load(f"{folder}/sent-0")
            for one, tensor in collected(whole_of(adapted())).items():
                self.assertTrue(torch.equal(got[one], tensor), one)
            self.assertEqual((number, torch.load(f"{folder}/sent-1")), (17, ([], 17)))


if __name__ == "__main__":
    unittest.main()
