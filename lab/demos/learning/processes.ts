import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { stringify } from 'yaml';
import { replaceFile } from '../../../src/platform/files.js';
import { takePort } from '../../../dev/free-port.js';
import { lastLines, runCommand } from '../../../src/platform/process/run-command.js';
import type { PlannedServer, StackPlace } from '../../../dev/stack.js';
import { planServer, startServerAndWorker } from '../../../dev/stack.js';
import type { Part } from '../../../dev/supervisor.js';
import type { Script } from './example.js';
import { exampleCommand, examplePart, LEARNING_EXAMPLE, TRL_TRAINER } from './example.js';
import type { Torch, Vllm } from './vllm.js';
import { TORCH_ENGINE, QWEN, vllmPart } from './vllm.js';

/** The task, and the speed of the engine. */
export interface Lesson {
  seed: number;
  steps: number;
  /** Seconds per token. */
  tick_s: number;
  /** The control: there is nothing to learn. */
  shuffle_advantages: boolean;
  /** The level at which the engine sleeps while the trainer computes; 0: it does not. */
  sleep: number;
  /** Weights are sent to the engine, and read from no file. */
  send: boolean;
  /** Of the adapter that TRL trains in place of the model; 0: none. */
  rank: number;
  /** null: the example's own engine. */
  vllm: Vllm | null;
  /** null: its policy is in numpy, or a vLLM serves it. */
  torch: Torch | null;
}

/** A run's folder holds everything: database, trajectories, weights, logs. Its name is the run's id. */
export const idOf = (folder: string): string => path.basename(folder);

export interface LearningStack extends PlannedServer {
  /** Without `/v1`. */
  engineUrl: string;
}

/** Engine, Temporal server and worker of a run. The training data is written first. */
export async function startLearningStack(
  place: StackPlace,
  { life, ...lesson }: Lesson & { life: keyof typeof HEARTBEAT_TIMEOUT },
): Promise<LearningStack> {
  const { folder, supervisor } = place;
  const server = await planServer(folder);
  const port = await takePort(8000);
  const stack = { ...server, engineUrl: `http://127.0.0.1:${port}` };
  const config = path.join(folder, 'temporal.yaml');
  await writeSettings(config, { folder, stack, life });
  await mkdir(path.join(folder, 'inputs'), { recursive: true });
  const samples = path.join(folder, 'inputs', idOf(folder));
  const seed = ['--seed', String(lesson.seed)];
  await runExample({ args: ['task.py', '--folder', samples, ...seed] });
  const { vllm } = lesson;
  const python = torchPythonOf(lesson);
  const model = modelOf(folder);
  if (python !== null)
    await runExample({ args: [`${QWEN}.py`, '--folder', model, ...seed], python });
  const { logs } = server;
  const engine = { port, folder, lesson, logs };
  await supervisor.run(vllm === null ? enginePart(engine) : vllmPart(vllm, { model, port, logs }));
  await startServerAndWorker(place, { server, config });
  return stack;
}

export function enginePart({
  port,
  folder,
  lesson,
  logs,
}: {
  port: number;
  folder: string;
  lesson: Lesson;
  logs: string;
}): Part {
  const { torch } = lesson;
  const args = [
    ...(torch === null
      ? ['wire.py', '--seed', String(lesson.seed)]
      : [TORCH_ENGINE, '--model', modelOf(folder), '--max-lora-rank', String(lesson.rank)]),
    ...['--port', String(port), '--log', path.join(folder, 'engine.jsonl')],
    ...['--tick', String(lesson.tick_s)],
  ];
  return examplePart(
    { name: 'engine', ready: /^engine on http/m, args, python: torch?.python },
    { logs, env: process.env },
  );
}

/** Of a policy in torch. */
const modelOf = (folder: string): string => path.join(folder, 'model');

const torchPythonOf = ({ vllm, torch }: Lesson): string | null =>
  vllm?.python ?? torch?.python ?? null;

/** A trainer's arguments, for any lesson. */
export const lessonArguments = ({ folder }: { folder: string }, lesson: Lesson): string[] => [
  ...['--folder', folder, '--seed', String(lesson.seed), '--steps', String(lesson.steps)],
];

/** A script that needs the policy, with the policy's module and a Python that can import it. */
export function ofModel(args: readonly string[], lesson: Lesson): Script {
  const python = torchPythonOf(lesson);
  return python === null ? { args } : { args: [...args, '--model', QWEN], python };
}

export function trainerPart(
  { folder, stack, finished }: { folder: string; stack: LearningStack; finished: () => void },
  lesson: Lesson,
): Part {
  const where = ['--id', idOf(folder), '--address', stack.address];
  const args = [...lessonArguments({ folder }, lesson), ...where];
  const { torch, shuffle_advantages, sleep, send, rank } = lesson;
  const own = [
    ...(shuffle_advantages ? ['--shuffle-advantages'] : []),
    ...(sleep > 0 ? ['--sleep', String(sleep)] : []),
    ...(send ? ['--send'] : []),
  ];
  const script =
    torch?.trainer === 'trl'
      ? { args: [TRL_TRAINER, ...args, '--rank', String(rank)], python: torch.python }
      : ofModel(['trainer.py', ...args, ...own], lesson);
  return examplePart(
    { name: 'trainer', finished, ...script },
    { logs: stack.logs, env: process.env },
  );
}

/** A killed worker must be noticed soon. Otherwise fewer heartbeats are cheaper, since each is a call to the server. */
const HEARTBEAT_TIMEOUT = { calm: '10s', killed: '3s' };

async function writeSettings(
  target: string,
  {
    folder,
    stack,
    life,
  }: { folder: string; stack: LearningStack; life: keyof typeof HEARTBEAT_TIMEOUT },
): Promise<void> {
  const { address, namespace, engineUrl } = stack;
  const settings = {
    temporal: { profile: null, address, namespace, task_queue: 'rollouts' },
    store: { kind: 'file', root: path.join(folder, 'trajectories') },
    inputs_dir: path.join(folder, 'inputs'),
    generation: { default: { kind: 'vllm', base_urls: [`${engineUrl}/v1`] } },
    environments: {
      cipher: { kind: 'module', path: path.join(LEARNING_EXAMPLE, 'environment.ts') },
    },
    worker: { heartbeat_timeout: HEARTBEAT_TIMEOUT[life] },
  };
  const origin = '# Written by each start of `npm run learning`';
  await replaceFile(target, { content: `${origin}\n${stringify(settings)}` });
}

const LONGEST_MS = 600_000;

/** Runs a script of the example and returns its output. If it fails, throws an error with the end of that output. */
export async function runExample(script: Script): Promise<string> {
  const { ok, output, problem } = await runCommand({
    ...exampleCommand(script, process.env),
    timeoutMs: LONGEST_MS,
  });
  if (!ok) throw new Error(`${script.args[0] ?? ''}: ${problem}\n${lastLines(output, 15)}`);
  return output;
}
