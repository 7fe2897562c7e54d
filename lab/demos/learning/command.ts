import path from 'node:path';
import { learn } from './learn.js';
import { torchOf, vllmOf } from './vllm.js';
import { UsageError } from '../../../src/platform/command.js';
import { FLAG, TEXT, integerOf, oneOf, optionsIn } from '../../../src/platform/arguments.js';

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
  rank: { type: 'string', default: '0' },
  chaos: FLAG,
  'kill-every': { type: 'string', default: String(KILL_EVERY_MS / 1000) },
  kills: TEXT,
  'no-comparison': FLAG,
} as const;

const ENGINES = ['example', 'torch', 'vllm'] as const;
const TRAINERS = ['own', 'trl'] as const;

export async function learningCommand(args: string[]): Promise<number> {
  const values = optionsIn(args, OPTIONS);
  const { chaos, kills } = values;
  const trainer = oneOf('--trainer', { text: values.trainer, among: TRAINERS });
  // TRL trains a policy in torch.
  const { engine: text = trainer === 'trl' ? 'torch' : 'example' } = values;
  const engine = oneOf('--engine', { text, among: ENGINES });
  checkTogether({ ...values, engine, trainer });
  const torch = engine === 'torch' ? torchOf(trainer, process.env) : null;
  const lesson = LESSON[trainer === 'trl' ? 'trl' : engine];
  const id = `learning-${new Date().toISOString().replace(/[-:]|\.\d+/g, '')}`;
  return await learn({
    folder: path.resolve(values.folder ?? path.join('.rollouts', id)),
    seed: wholeOf('seed', values.seed),
    steps: wholeOf('steps', values.steps ?? lesson.steps),
    tick_s: numberOf('tick', values.tick ?? String(chaos ? TICK_S.chaos : TICK_S.calm)),
    target: numberOf('target', values.target ?? lesson.target),
    shuffle_advantages: values['shuffle-advantages'],
    sleep: Number(oneOf('--sleep', { text: values.sleep, among: ['0', '1', '2'] })),
    send: values.send,
    rank: wholeOf('rank', values.rank),
    kills: chaos
      ? {
          every_ms: 1000 * numberOf('kill-every', values['kill-every']),
          most: kills === undefined ? null : wholeOf('kills', kills),
        }
      : null,
    // The loop that starts over has the policy in numpy.
    compare: !values['no-comparison'] && torch === null,
    vllm: engine === 'vllm' ? vllmOf(process.env) : null,
    torch,
  });
}

interface Together {
  engine: (typeof ENGINES)[number];
  trainer: (typeof TRAINERS)[number];
  sleep: string;
  send: boolean;
  rank: string;
  chaos: boolean;
  tick?: string;
  'shuffle-advantages': boolean;
}

function checkTogether({ engine, trainer, ...values }: Together): void {
  const { sleep, send, rank, chaos, tick, 'shuffle-advantages': shuffles } = values;
  if (trainer === 'trl' && (engine !== 'torch' || shuffles))
    throw new UsageError(
      '--trainer trl: expected neither another --engine nor --shuffle-advantages',
    );
  if (trainer !== 'trl' && rank !== '0')
    throw new UsageError(
      `--rank: expected --trainer trl, which alone trains an adapter; got ${trainer}`,
    );
  if (engine !== 'example' && (send || sleep !== '0'))
    throw new UsageError(
      '--send, --sleep: expected no other --engine and no other --trainer beside them',
    );
  // A vLLM takes minutes to start, and its speed per token is its own.
  if (engine === 'vllm' && (chaos || tick !== undefined))
    throw new UsageError('--engine vllm: expected neither --chaos nor --tick beside it');
}

function numberOf(option: string, text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value >= 0) return value;
  throw new UsageError(`--${option}: expected a number from 0 on, got ${JSON.stringify(text)}`);
}

const wholeOf = (option: string, text: string): number =>
  integerOf(`--${option}`, { text, least: 0 });
