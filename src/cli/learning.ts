import path from 'node:path';
import { parseArgs } from 'node:util';
import { learn } from '../../lab/demos/learning/learn.js';
import type { Torch, Vllm } from '../../lab/demos/learning/vllm.js';
import { torchOf, vllmOf } from '../../lab/demos/learning/vllm.js';
import { UsageError } from '../platform/command.js';
import { FLAG, TEXT, integerOf } from './arguments.js';

/** Number of steps, and the held-out reward to reach with them. */
const LESSON = {
  example: { steps: '50', target: '0.9' },
  torch: { steps: '60', target: '0.7' },
  vllm: { steps: '60', target: '0.7' },
  trl: { steps: '60', target: '0.2' },
};
/** Seconds per token: a rollout takes half a second, or, under kills, some seconds, so that kills hit it. */
const TICK_S = { calm: 0.01, chaos: 0.1 };
const KILL_EVERY_MS = 5000;

const OPTIONS = {
  folder: TEXT,
  seed: { type: 'string', default: '1' },
  steps: TEXT,
  engine: TEXT,
  trainer: { type: 'string', default: 'own' },
  tick: TEXT,
  target: TEXT,
  'shuffle-advantages': FLAG,
  sleep: { type: 'string', default: '0' },
  send: FLAG,
  chaos: FLAG,
  'kill-every': { type: 'string', default: String(KILL_EVERY_MS / 1000) },
  kills: TEXT,
  'no-comparison': FLAG,
} as const;

export async function learningCommand(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: OPTIONS });
  const { chaos, tick = String(chaos ? TICK_S.chaos : TICK_S.calm), kills } = values;
  const engine = engineOf(values);
  const { vllm, torch } = partsOf(engine, values);
  const lesson = LESSON[torch?.trainer === 'trl' ? 'trl' : engine];
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
    // The loop that starts over has the policy in numpy.
    compare: !values['no-comparison'] && torch === null,
    vllm,
    torch,
  });
}

const ENGINES = ['example', 'torch', 'vllm'] as const;
type Engine = (typeof ENGINES)[number];

interface EngineOptions {
  engine?: string;
  trainer: string;
  sleep: string;
  send: boolean;
  chaos: boolean;
  tick?: string;
  'shuffle-advantages': boolean;
}

/** What TRL trains is a policy in torch. */
function engineOf({ engine, trainer }: EngineOptions): Engine {
  const known = ENGINES.find(
    (one) => one === (engine ?? (trainer === 'trl' ? 'torch' : 'example')),
  );
  if (known === undefined)
    throw new UsageError(
      `--engine: expected ${ENGINES.join(' or ')}, got ${JSON.stringify(engine)}`,
    );
  return known;
}

interface EngineParts {
  vllm: Vllm | null;
  torch: Torch | null;
}

function partsOf(engine: Engine, options: EngineOptions): EngineParts {
  const { trainer, chaos, tick, sleep, send } = options;
  if (trainer !== 'own' && trainer !== 'trl')
    throw new UsageError(`--trainer: expected own or trl, got ${JSON.stringify(trainer)}`);
  if (trainer === 'trl' && (engine !== 'torch' || options['shuffle-advantages']))
    throw new UsageError(
      '--trainer trl: expected neither another --engine nor --shuffle-advantages',
    );
  if (engine === 'example') return { vllm: null, torch: null };
  if (send || sleep !== '0')
    throw new UsageError(
      '--send, --sleep: expected no other --engine and no other --trainer beside them',
    );
  if (engine === 'torch') return { vllm: null, torch: torchOf(trainer, process.env) };
  // A vLLM takes minutes to start, and its speed per token is its own.
  if (chaos || tick !== undefined)
    throw new UsageError('--engine vllm: expected neither --chaos nor --tick beside it');
  return { vllm: vllmOf(process.env), torch: null };
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
