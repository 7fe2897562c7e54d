/** A stack on which a real TRL trains a tiny model, whose engine samples with torch. */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { LEARNING_EXAMPLE } from '../../demos/learning/example.js';
import { PYTHON_PACKAGES } from '../../src/dev/trainer-example.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../harness/waiting.js';

const PROGRAMS = path.join(PYTHON_PACKAGES, 'tests', 'trl');
/** A checkout of prime-rl: its `src` and its configurations. Without one, a stand-in packs. */
const PRIME_RL = process.env['ROLLOUT_PRIME_RL'] ?? path.join(PYTHON_PACKAGES, 'tests', 'prime_rl', 'stand_in'); // prettier-ignore
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
  /** What the engine has sampled: by request, in order. */
  sampled: () => { request: string; id: number }[];
  /** Folders of weights that it has loaded. */
  loads: () => string[];
  run: (script: string, args: string[]) => Program;
  /** Python itself. */
  python: (args: string[]) => Program;
  end: () => Promise<void>;
}

/** examples/learning/engine.py describes it. */
interface LogLine {
  sequence?: string;
  request?: string;
  tokens?: [sequence: string, id: number, logprob: number][];
  loaded?: string;
}

/** `tick_s`: seconds that a token takes. */
export async function startTrlBed(name: string, { tick_s }: { tick_s: number }): Promise<TrlBed> {
  const bed = await startTestbed(name);
  const model = path.join(bed.directory, 'model');
  const log = path.join(bed.directory, 'engine.jsonl');
  const python = (args: string[]): Program => {
    const child = spawn(PYTHON, args, {
      cwd: LEARNING_EXAMPLE,
      env: {
        ...process.env,
        PYTHONPATH: [PYTHON_PACKAGES, LEARNING_EXAMPLE, UNIT_TESTS, PRIME_RL].join(':'),
        PYTHONDONTWRITEBYTECODE: '1',
        PYTHONUNBUFFERED: '1',
        HF_HUB_OFFLINE: '1',
        TRL_EXPERIMENTAL_SILENCE: '1',
        OMP_NUM_THREADS: '1',
        TEMPORAL_ADDRESS: bed.server.address,
        TEMPORAL_NAMESPACE: bed.server.namespace,
      },
      // The engine ends with its standard input.
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    const said: string[] = [];
    for (const stream of [child.stdout, child.stderr])
      createInterface({ input: stream }).on('line', (line) => said.push(line));
    const ended = once(child, 'close').then(([code]) => code as number | null);
    return { child, said, ended };
  };
  const lines = (): LogLine[] =>
    readFileSync(log, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as LogLine);
  mkdirSync(model, { recursive: true });
  const made = python(['qwen.py', '--folder', model, '--seed', '1']);
  if ((await made.ended) !== 0) throw new Error(made.said.join('\n'));
  const engine = python(['torch_engine.py', '--port', '0', '--model', model, '--log', log, '--tick', String(tick_s)]); // prettier-ignore
  const end = async (): Promise<void> => {
    engine.child.kill('SIGKILL');
    await engine.ended;
    await bed.end();
  };
  try {
    const url = await eventually({ what: 'the engine', timeout_ms: 120_000 }, () => {
      if (engine.child.exitCode !== null) throw new Error(engine.said.join('\n'));
      return engine.said
        .find((line) => line.startsWith('engine on '))
        ?.split(' ')
        .at(-1);
    });
    await bed.startWorker({
      task_queue: 'rollouts',
      generation: { default: { kind: 'vllm', base_urls: [url] } },
      environments: {
        cipher: { kind: 'module', path: path.join(LEARNING_EXAMPLE, 'environment.ts') },
      },
    });
  } catch (error) {
    await end();
    throw error;
  }
  return {
    bed,
    model,
    sampled: () => sampledOf(lines()),
    loads: () => lines().flatMap(({ loaded }) => (loaded === undefined ? [] : [loaded])),
    run: (script, args) => python([path.join(PROGRAMS, script), ...args]),
    python,
    end,
  };
}

function sampledOf(lines: readonly LogLine[]): { request: string; id: number }[] {
  const requests = new Map(lines.map(({ sequence = '', request = '' }) => [sequence, request]));
  return lines.flatMap(({ tokens = [] }) =>
    tokens.map(([sequence, id]) => ({ request: requests.get(sequence) ?? '', id })),
  );
}
