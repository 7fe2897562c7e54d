import type { LineOf } from '../journal.js';
import type { Calls } from './calls.js';
import { beginCall, completeCall } from './calls.js';

/** The lives of an agent that asks for answers by itself. A rollout whose journal has no `life` has none of this. */
export interface Lives {
  lives: Life[];
  /** Lives before the last reopening: they count among no attempts. */
  forgiven: number;
  materials: Map<string, LineOf<'material'>>;
  refused: LineOf<'refused'>[];
  /** How the last run failed, or could not begin, at an agent of NeMo Gym. */
  run_fault: LineOf<'fault'> | null;
}

export interface Life {
  line: LineOf<'life'>;
  result: LineOf<'result'> | null;
  exit: LineOf<'exit'> | null;
  /** The refusal behind which no call was answered: an end is that limit's. */
  refusal: LineOf<'refused'> | null;
}

export const noLives = (): Lives => ({
  lives: [],
  forgiven: 0,
  materials: new Map(),
  refused: [],
  run_fault: null,
});

type LifeLine = LineOf<
  'life' | 'material' | 'call' | 'answer' | 'served' | 'refused' | 'result' | 'exit' | 'fault'
>;

/** A line that does not fit those before it is ignored, as everywhere. */
export function applyToLives(folded: Calls & Lives, line: LifeLine): void {
  const { calls, lives, materials } = folded;
  const last = lives.at(-1);
  const life = last?.exit === null ? last : undefined;
  const isOf = (one: { life: number }): boolean => life?.line.life === one.life;
  switch (line.kind) {
    case 'life':
      if (line.life !== lives.length + 1) break;
      lives.push({ line, result: null, exit: null, refusal: null });
      folded.run_fault = null;
      break;
    case 'material':
      if (!materials.has(line.hash)) materials.set(line.hash, line);
      break;
    case 'call':
      if (isOf(line)) beginCall(calls, { line });
      break;
    case 'answer':
      if (completeCall(folded, { turn: line.turn, answer: line }) && life) life.refusal = null;
      break;
    case 'served': {
      const call = calls[line.turn];
      if (call === undefined || line.life > lives.length) break;
      call.given.set(line.life, line.whole || call.given.get(line.life) === true);
      call.served += 1;
      // An answer of an earlier life is given again without a line of its own.
      if (life && isOf(line) && call.line.life !== line.life && call.answer !== null)
        life.refusal = null;
      break;
    }
    case 'refused':
      if (!life || !isOf(line)) break;
      folded.refused.push(line);
      life.refusal = line;
      break;
    case 'result':
      if (life) applyResult(folded, { life, line });
      break;
    case 'exit':
      if (life && isOf(line)) life.exit = line;
      break;
    case 'fault':
      if (line.failure_class !== undefined && line.uncounted !== true) folded.run_fault = line;
      break;
  }
}

/** The last one counts: it may have been shaped later. An agent with its own model may say what that read and said. */
function applyResult(folded: Calls, { life, line }: { life: Life; line: LineOf<'result'> }): void {
  life.result = line;
  const { usage } = line;
  if (usage === null || folded.calls.length > 0) return;
  folded.assistant_tokens = usage.output_tokens;
  folded.env_tokens = Math.max(0, usage.total_tokens - usage.output_tokens);
}

/** A program has ended by itself, or by a limit. Any other end is a failure of this life, and another one may follow. */
export const hasFinished = ({ exit, refusal }: Life): boolean =>
  exit !== null && exit.failed !== true && (exit.code === 0 || refusal !== null);

/** Whether a life failed by itself. One without an end was lost with its worker, or ended by a fault of ours. */
const hasFailed = (life: Life): boolean => life.exit !== null && !hasFinished(life);

/** Lives that count among the rollout's attempts. */
export const failedLives = ({ lives, forgiven }: Pick<Lives, 'lives' | 'forgiven'>): Life[] =>
  lives.slice(forgiven).filter(hasFailed);

/** What an agent of NeMo Gym answered last, in whichever life; null: nothing, or it is another's. */
export const lastResult = ({ lives }: Pick<Lives, 'lives'>): LineOf<'result'> | null =>
  lives.findLast(({ result }) => result !== null)?.result ?? null;

/** How often the rollout had failed before its last life: what NeMo Gym calls the index of an attempt. */
export const failuresBefore = ({ lives }: Pick<Lives, 'lives'>): number =>
  lives.slice(0, -1).filter(hasFailed).length;
