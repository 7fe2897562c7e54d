/** A stack on which a real TRL trains a tiny model, whose engine samples with torch. */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { LEARNING_EXAMPLE } from '../../lab/demos/learning/example.js';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import type { Freezing } from '../../lab/bed/freezing.js';
import { freezing } from '../../lab/bed/freezing.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { WorkerProcess } from '../../lab/bed/worker.js';

const PROGRAMS = path.join(PYTHON_PACKAGES, 'tests', 'trl');
/** A checkout of prime-rl: its `src` and its configurations. Without one, a stand-in packs. */
const PRIME_RL =
  process.env['ROLLOUT_PRIME_RL'] ?? path.join(PYTHON_PACKAGES, 'tests', 'prime_rl', 'stand_in');
/** Rows that tests share. */
const UNIT_TESTS = path.join(PYTHON_PACKAGES, 'tests', 'unit');
const PYTHON = process.env['ROLLOUT_TRL_PYTHON'] ?? '';

/** For the option `skip`: why it cannot run, or false. */
export const WITHOUT_TRL: string | false =
  PYTHON === ''
    ? 'no TRL: set ROLLOUT_TRL_PYTHON to a Python with python/tests/trl/requirements.txt'
    : false;

export interface Program {
  child: ChildProcess;
  /** Lines of its output so far. */
  said: string[];
  /** Its exit code; null: it was killed. */
  ended: Promise<number | null>;
}

export interface TrlBed {
  bed: Testbed;
  /** The model that the engine begins with. */
  model: string;
  /** Of the engine. */
  url: string;
  /** What the engine has sampled: by request, in order. */
  sampled: () => { request: string; id: number }[];
  /** Folders of weights that it has loaded. */
  loads: () => string[];
  /** By which mode it was paused, each time. */
  pauses: () => string[];
  run: (script: string, args: string[]) => Program;
  /** Where a script of these tests is. */
  script: (name: string) => string;
  /** Python itself. */
  python: (args: string[]) => Program;
  /** Of the engine. */
  freezing: Freezing;
  /** kill -9, and another one at the same place, with the weights that it began with. */
  restartEngine: () => Promise<void>;
  /** kill -9, and another one when `meanwhile` has ended. */
  restartWorker: (meanwhile?: () => Promise<void>) => Promise<void>;
  end: () => Promise<void>;
}

/** Of a service to which engines of this machine join. */
const JOINING = { base_urls: [], allow: [{ cidr: '127.0.0.0/8', ports: '1-65535' }] };

/** examples/learning/engine.py describes it. */
interface LogLine {
  sequence?: string;
  request?: string;
  tokens?: [sequence: string, id: number, logprob: number][];
  loaded?: string;
  paused?: string;
}

export interface TrlBedOptions {
  /** Seconds that a token takes. */
  tick_s: number;
  /** Another Python than TRL's. */
  executable?: string;
  /** The engine is none of temporal.yaml: the trainer joins it. */
  joins?: boolean;
  /** Of the adapters that the engine loads; 0: it loads none. */
  most_rank?: number;
  /** Another engine, with the model in this folder: its base URL. */
  serve?: (model: string) => Promise<string>;
  env?: Record<string, string>;
  /** A folder of further Python modules, in place of prime-rl's. */
  modules?: string;
}

export async function startTrlBed(
  name: string,
  {
    tick_s,
    executable = PYTHON,
    joins = false,
    most_rank = 0,
    serve,
    env = {},
    modules = PRIME_RL,
  }: TrlBedOptions,
): Promise<TrlBed> {
  // Beds of one file have the same service, and runs of the same names.
  const bed = await startTestbed(name, { own_server: true, in_memory: true });
  const model = path.join(bed.directory, 'model');
  const log = path.join(bed.directory, 'engine.jsonl');
  const programs: Program[] = [];
  const python = (args: string[]): Program => {
    const child = spawn(executable, args, {
      cwd: LEARNING_EXAMPLE,
      env: {
        ...process.env,
        PYTHONPATH: [PYTHON_PACKAGES, LEARNING_EXAMPLE, UNIT_TESTS, modules].join(':'),
        PYTHONDONTWRITEBYTECODE: '1',
        PYTHONUNBUFFERED: '1',
        HF_HUB_OFFLINE: '1',
        TRL_EXPERIMENTAL_SILENCE: '1',
        OMP_NUM_THREADS: '1',
        TEMPORAL_ADDRESS: bed.server.address,
        TEMPORAL_NAMESPACE: bed.server.namespace,
        ...env,
      },
      // The engine ends with its standard input.
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    const said: string[] = [];
    for (const stream of [child.stdout, child.stderr])
      createInterface({ input: stream }).on('line', (line) => said.push(line));
    const ended = once(child, 'close').then(([code]) => code as number | null);
    const program = { child, said, ended };
    programs.push(program);
    return program;
  };
  const lines = (): LogLine[] =>
    readFileSync(log, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as LogLine);
  mkdirSync(model, { recursive: true });
  writeFileSync(log, '');
  const made = python(['qwen.py', '--folder', model, '--seed', '1']);
  if ((await made.ended) !== 0) throw new Error(made.said.join('\n'));
  const startEngine = (port: string): Program =>
    python([
      'torch_engine.py',
      '--model',
      model,
      '--log',
      log,
      '--tick',
      String(tick_s),
      '--port',
      port,
      '--max-lora-rank',
      String(most_rank),
    ]);
  const startWorker = (name: string): Promise<WorkerProcess> =>
    bed.startWorker({
      task_queue: 'rollouts',
      name,
      generation: { default: { kind: 'vllm', ...(joins ? JOINING : { base_urls: [url] }) } },
      environments: {
        cipher: { kind: 'module', path: path.join(LEARNING_EXAMPLE, 'environment.ts') },
      },
    });
  let engine = serve === undefined ? startEngine('0') : made;
  const killEngine = async (): Promise<void> => {
    engine.child.kill('SIGKILL');
    await engine.ended;
  };
  /** Also of what a failed test has left: this file would wait for it. */
  const end = async (): Promise<void> => {
    for (const { child } of programs) child.kill('SIGKILL');
    await Promise.all(programs.map(({ ended }) => ended));
    await bed.end();
  };
  let url: string;
  let restarts = 0;
  let worker: WorkerProcess;
  try {
    url = serve === undefined ? await untilItListens(engine) : await serve(model);
    worker = await startWorker('rollouts');
  } catch (error) {
    await end();
    throw error;
  }
  return {
    bed,
    model,
    url,
    sampled: () => sampledOf(lines()),
    loads: () => lines().flatMap(({ loaded }) => (loaded === undefined ? [] : [loaded])),
    pauses: () => lines().flatMap(({ paused }) => (paused === undefined ? [] : [paused])),
    run: (script, args) => python([path.join(PROGRAMS, script), ...args]),
    script: (name) => path.join(PROGRAMS, name),
    python,
    freezing: freezing(() => engine.child.pid!),
    restartEngine: async () => {
      await killEngine();
      engine = startEngine(new URL(url).port);
      await untilItListens(engine);
    },
    restartWorker: async (meanwhile) => {
      await worker.kill('SIGKILL');
      await meanwhile?.();
      worker = await startWorker(`rollouts-${(restarts += 1)}`);
    },
    end,
  };
}

function sampledOf(lines: readonly LogLine[]): { request: string; id: number }[] {
  const requests = new Map(lines.map(({ sequence = '', request = '' }) => [sequence, request]));
  return lines.flatMap(({ tokens = [] }) =>
    tokens.map(([sequence, id]) => ({ request: requests.get(sequence) ?? '', id })),
  );
}

const untilItListens = ({ child, said }: Program): Promise<string> =>
  eventually('the engine', () => {
    if (child.exitCode !== null) throw new Error(said.join('\n'));
    return said
      .find((line) => line.startsWith('engine on '))
      ?.split(' ')
      .at(-1);
  });
