import path from 'node:path';
import { parseArgs } from 'node:util';
import { learn } from '../../demos/learning/learn.js';
import type { Vllm } from '../../demos/learning/vllm.js';
import { vllmOf } from '../../demos/learning/vllm.js';
import { UsageError } from '../platform/command.js';
import { integerOf } from './arguments.js';

/** Number of steps, and the held-out reward to reach with them. */
const LESSON = { example: { steps: '50', target: '0.9' }, vllm: { steps: '60', target: '0.7' } };
/** Seconds per token: a rollout takes half a second, or, under kills, some seconds, so that kills hit it. */
const TICK_S = { calm: 0.01, chaos: 0.1 };
const KILL_EVERY_MS = 5000;

const OPTIONS = {
  folder: { type: 'string' },
  seed: { type: 'string', default: '1' },
  steps: { type: 'string' },
  engine: { type: 'string', default: 'example' },
  tick: { type: 'string' },
  target: { type: 'string' },
  'shuffle-advantages': { type: 'boolean', default: false },
  sleep: { type: 'string', default: '0' },
  send: { type: 'boolean', default: false },
  chaos: { type: 'boolean', default: false },
  'kill-every': { type: 'string', default: String(KILL_EVERY_MS / 1000) },
  kills: { type: 'string' },
  'no-comparison': { type: 'boolean', default: false },
} as const;

export async function learningCommand(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: OPTIONS });
  const { chaos, tick = String(chaos ? TICK_S.chaos : TICK_S.calm), kills } = values;
  const vllm = vllmAskedFor(values);
  const lesson = vllm === null ? LESSON.example : LESSON.vllm;
  const id = `learning-${new Date().toISOString().replace(/[-:]|\.\d+/g, '')}`;
  return await learn({
    folder: path.resolve(values.folder ?? path.join('.rollouts', id)),
    seed: wholeOf('seed', values.seed),
    steps: wholeOf('steps', values.steps ?? lesson.steps),
    tick_s: numberOf('tick', tick),
    target: numberOf('target', values.target ?? lesson.target),
    shuffle_advantages: values['shuffle-advantages'],
    sleep: levelOf(values.sleep),
    send: values.send,
    kills: chaos
      ? {
          every_ms: 1000 * numberOf('kill-every', values['kill-every']),
          most: kills === undefined ? null : wholeOf('kills', kills),
        }
      : null,
    compare: !values['no-comparison'],
    vllm,
  });
}

interface EngineOptions {
  engine: string;
  sleep: string;
  send: boolean;
  chaos: boolean;
  tick?: string;
}

/** null: the example's own engine. */
function vllmAskedFor({ engine, sleep, send, chaos, tick }: EngineOptions): Vllm | null {
  if (engine === 'example') return null;
  if (engine !== 'vllm')
    throw new UsageError(`--engine: expected example or vllm, got ${JSON.stringify(engine)}`);
  // A vLLM takes minutes to start, and its speed per token is its own.
  if (chaos || tick !== undefined)
    throw new UsageError('--engine vllm: expected neither --chaos nor --tick beside it');
  // One on a CPU cannot sleep, and takes weights by a backend of its own.
  if (send || sleep !== '0')
    throw new UsageError('--engine vllm: expected neither --send nor --sleep beside it');
  return vllmOf(process.env);
}

function levelOf(text: string): number {
  if (['0', '1', '2'].includes(text)) return Number(text);
  throw new UsageError(`--sleep: expected 0, 1 or 2, got ${JSON.stringify(text)}`);
}

function numberOf(option: string, text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value >= 0) return value;
  throw new UsageError(`--${option}: expected a number from 0 on, got ${JSON.stringify(text)}`);
}

const wholeOf = (option: string, text: string): number =>
  integerOf(`--${option}`, { text, least: 0 });
