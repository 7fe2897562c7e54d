/** A row beside the log of the engine that sampled it. */
import assert from 'node:assert/strict';

export interface SampledRow {
  rollout_id: string;
  message_log: { token_ids: number[]; generation_logprobs?: number[] }[];
}

/** An engine's tokens, by request, in order. */
export type Sampled = readonly { request: string; id: number }[];

export const ofRollout = (sampled: Sampled, rollout_id: string): number[] =>
  sampled.filter(({ request }) => request.startsWith(`${rollout_id}.`)).map(({ id }) => id);

/**
 * What has been journalled is not sampled again. A kill may cost the tokens of a turn that no journal has yet: at most
 * `unseen`. They are sampled anew, and nobody has seen them.
 */
export function assertSampledOnce(
  row: SampledRow,
  { sampled, unseen }: { sampled: Sampled; unseen: number },
): void {
  const own = ofRollout(sampled, row.rollout_id);
  const ids = row.message_log.flatMap(({ token_ids, generation_logprobs }) =>
    generation_logprobs === undefined ? [] : token_ids,
  );
  const again = own.length - ids.length;
  assert.ok(again <= unseen, `${row.rollout_id}: ${own.length} sampled, ${ids.length} in its row`);
  let at = 0;
  for (const id of own) at += Number(id === ids[at]);
  assert.equal(
    at,
    ids.length,
    `${row.rollout_id}: the engine has sampled ${own.join()}, its row has ${ids.join()}`,
  );
}
