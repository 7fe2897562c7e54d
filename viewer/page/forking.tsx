import type { JSX } from 'preact';
import type { RolloutDocument } from '../documents.js';
import { Command } from './commands.js';

/** What is looked at. */
export interface At {
  turn: number | null;
  token: number | null;
}

/** Commands for the turn or token that is looked at, and for the whole batch. */
export function Forking({ rollout, at }: { rollout: RolloutDocument; at: At }): JSX.Element {
  const { id, batch_id, calls } = rollout;
  // A program plays on from a call, not from the middle of one.
  const isProgram = calls.some(({ life }) => life !== null);
  const turn = at.turn ?? 0;
  const isTurn = at.token === null || isProgram;
  const place = isTurn ? `turn:${turn}` : `token:${sampledBefore(rollout, at)}`;
  return (
    <details class="commands">
      <summary>Fork, rerun, compare</summary>
      <Command
        what={
          isTurn
            ? `fork at turn ${turn}, whose answer is sampled anew`
            : `fork before token ${at.token} of turn ${turn}`
        }
        words={['temporal-rollout', 'fork', id, '--at', place]}
      />
      <Command
        what="run its batch again"
        words={['temporal-rollout', 'start', '--like', batch_id, '--id', `${batch_id}-again`]}
      />
      <Command
        what="where both part"
        words={['temporal-rollout', 'diff', batch_id, `${batch_id}-again`]}
      />
    </details>
  );
}

/** Sampled tokens of the rollout before one of a turn. */
function sampledBefore({ calls }: RolloutDocument, { turn, token }: At): number {
  const before = calls.filter(({ number }) => number < (turn ?? 0));
  return before.reduce((sum, { answer }) => sum + answer.tokens.ids.length, token ?? 0);
}
