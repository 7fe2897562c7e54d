import type { JSX } from 'preact';
import type { ForkedFrom } from '../documents.js';
import { hrefOf, parseRolloutId } from './address.js';
import { Shown } from './text.js';

/** Leads to the rollout whose beginning a fork has. */
export function Forked({ from: { rollout_id, at } }: { from: ForkedFrom }): JSX.Element {
  return (
    <>
      forked from{' '}
      <a href={hrefOf(parseRolloutId(rollout_id) ?? {})}>
        <Shown text={rollout_id} />
      </a>{' '}
      at <Shown text={at} />
    </>
  );
}
