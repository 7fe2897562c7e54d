import type { TurnAddress } from './rollout-address.js';
import { rolloutIdOf } from './rollout-address.js';
import { ScriptError } from './scripts.js';

interface KnownTurn {
  prompt_ids: readonly number[];
  /** The streamed text of the policy; null for a resumed turn, which the client cuts itself. */
  token_ids: readonly number[] | null;
  complete: boolean;
}

/** `first`, `repeat` of the same prompt, or a `resume` after tokens of the turn that the prompt already has. */
export interface TurnRequest {
  kind: 'first' | 'repeat' | 'resume';
  inherited: readonly number[];
}

/**
 * The requests of one rollout so far. Each prompt must extend the previous turn, token by token, and no completed turn
 * may be requested again.
 */
export function createTurnLedger() {
  const turns: (KnownTurn | undefined)[] = [];

  const enter = (
    address: TurnAddress,
    { prompt_ids, allow_repeats }: { prompt_ids: readonly number[]; allow_repeats: boolean },
  ): TurnRequest => {
    const name = `turn ${address.turn} of ${rolloutIdOf(address)}`;
    const known = turns[address.turn];
    if (known === undefined) {
      if (turns.length > address.turn) throw new ScriptError(`${name} comes after a later turn`);
      checkContinues(turns.at(-1), { prompt_ids, name });
      turns[address.turn] = { prompt_ids, token_ids: null, complete: false };
      return { kind: 'first', inherited: [] };
    }
    if (known.complete && !allow_repeats) throw new ScriptError(`${name} was generated twice`);
    if (!startsWith(prompt_ids, known.prompt_ids)) {
      throw new ScriptError(`${name} was asked for again with another prompt`);
    }
    const inherited = prompt_ids.slice(known.prompt_ids.length);
    return { kind: inherited.length === 0 ? 'repeat' : 'resume', inherited };
  };

  const complete = (
    { turn }: TurnAddress,
    { token_ids, kind }: { token_ids: readonly number[]; kind: TurnRequest['kind'] },
  ): void => {
    const known = turns[turn];
    if (known === undefined) return;
    known.complete = true;
    known.token_ids = kind === 'resume' ? null : token_ids;
  };

  return { enter, complete };
}

function checkContinues(
  before: KnownTurn | undefined,
  { prompt_ids, name }: { prompt_ids: readonly number[]; name: string },
): void {
  if (before === undefined) return;
  if (!before.complete)
    throw new ScriptError(`${name} comes before the turn before it is generated`);
  if (!startsWith(prompt_ids, [...before.prompt_ids, ...(before.token_ids ?? [])])) {
    throw new ScriptError(`the prompt of ${name} does not begin with what was generated before`);
  }
}

const startsWith = (ids: readonly number[], beginning: readonly number[]): boolean =>
  beginning.length <= ids.length && beginning.every((id, i) => id === ids[i]);
