import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import type { PublishResult } from '../../src/activities/contract/policy.js';
import type { TestServer } from '../../lab/bed/server.js';
import { eventually } from '../../lab/bed/waiting.js';

/** A trainer in Python that sends tensors to a real vLLM over TCP, and may be killed at any stage. */

const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
/** vLLM is imported first: half a minute on a busy machine. */
const READY_MS = 180_000;
const STAGE_MS = 90_000;

/** In this order: before and behind `begin`, of the tensors, and before `finish`. */
export type Stage = 'begins' | 'begun' | 'started' | 'half' | 'all' | 'ended';

interface Order {
  /** The folder whose weights it sends; null: none, though it says that it has. */
  tensors: string | null;
  /** Where it stops until it is killed, or woken. */
  stop?: Stage;
  /** How long the engine waits for a sender that is gone. */
  hang_s?: number;
  /** Of `Policy.transfer`. */
  options?: object;
}

/** Many updates by one process, whose weights are those of these folders by turns. */
interface Repeated {
  times: number;
  folders: readonly string[];
  /** At this URL, without this project. */
  bare?: string;
  options?: object;
}

export interface Said {
  stage?: Stage | 'ready' | 'over';
  pid?: number;
  version?: number;
  send_s?: number;
  result?: PublishResult;
  fault?: string;
  /** Of an update of many. Times are seconds since 1970. */
  update?: number;
  began?: number;
  ended?: number;
  begin_s?: number;
  paused_s?: number;
}

export interface Running {
  reached: (stage: Stage) => Promise<Said>;
  wake: () => void;
  /** SIGKILL. */
  kill: () => void;
  /** What it said, once it has ended. */
  over: (timeout_ms?: number) => Promise<Said[]>;
}

export interface TensorTrainer {
  /** Each order is a process of its own. */
  order: (order: Order | Repeated) => Promise<Running>;
  end: () => Promise<void>;
}

/** With vLLM, torch and what the Python package needs. */
export const tinyPython = (): string =>
  spawnSync(here('tiny-vllm.sh'), ['python'], { encoding: 'utf8' }).stdout.trim();

export async function startTensorTrainer(
  { address, namespace }: TestServer,
  task_queue: string,
): Promise<TensorTrainer> {
  const folder = here('tcp-transfer');
  const child = spawn(tinyPython(), [path.join(folder, 'send_tensors.py')], {
    env: {
      ...process.env,
      PYTHONPATH: `${PYTHON_PACKAGES}:${folder}`,
      PYTHONDONTWRITEBYTECODE: '1',
      VLLM_LOGGING_LEVEL: 'ERROR',
      ADDRESS: address,
      NAMESPACE: namespace,
      TASK_QUEUE: task_queue,
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const said: Said[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line.startsWith('{')) said.push(JSON.parse(line) as Said);
  });
  const heard = (
    what: string,
    { from, timeout_ms, is }: { from: number; timeout_ms: number; is: (one: Said) => boolean },
  ): Promise<Said> =>
    eventually({ what: `a trainer that says ${what}`, timeout_ms }, () => {
      assert.equal(child.exitCode, null, 'the trainer has ended');
      return said.slice(from).find(is);
    });
  const isAt = (stage: Said['stage']) => (one: Said) => one.stage === stage;
  await heard('ready', { from: 0, timeout_ms: READY_MS, is: isAt('ready') });
  return {
    order: async ({ options = {}, ...order }) => {
      const from = said.length;
      child.stdin.write(
        `${JSON.stringify({ ...order, options: { holder: 'grpo', ...options } })}\n`,
      );
      const { pid } = await heard('a pid', {
        from,
        timeout_ms: STAGE_MS,
        is: (one) => one.pid !== undefined,
      });
      return {
        reached: (stage) => heard(stage, { from, timeout_ms: STAGE_MS, is: isAt(stage) }),
        wake: () => process.kill(pid!, 'SIGUSR1'),
        kill: () => process.kill(pid!, 'SIGKILL'),
        over: async (timeout_ms = STAGE_MS) => {
          await heard('over', { from, timeout_ms, is: isAt('over') });
          return said.slice(from);
        },
      };
    },
    end: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
}
