import assert from 'node:assert/strict';
import type { Row } from '../../src/model/results/row.js';
import { torchLogprobs } from './torch-logprobs.js';

interface Turn {
  prompt_ids: number[];
  token_ids: number[];
  logprobs: number[];
  /** Of each of its tokens. */
  versions: string[];
}

/**
 * Compares every token with torch under the checkpoint of its label. The cache is emptied at each update, so what the
 * new weights sample they have read wholly themselves.
 */
export function compareWithTorch(
  rollouts: readonly Row[],
  checkpointOf: (version: number) => string,
): { checked: number; furthest: number; versions: Set<string> } {
  const labelled = rollouts
    .flatMap(turnsOf)
    .flatMap((turn) => [...new Set(turn.versions)].map((version) => ({ ...turn, version })));
  // Importing torch takes long: all versions are computed by one process.
  const expected = torchLogprobs(
    labelled.map(({ prompt_ids, token_ids, version }) => ({
      prompt_ids,
      token_ids,
      temperature: 1,
      checkpoint: checkpointOf(Number(version)),
    })),
  );
  let checked = 0;
  let furthest = 0;
  for (const [i, { logprobs, versions, version }] of labelled.entries())
    for (const [k, got] of logprobs.entries()) {
      if (versions[k] !== version) continue;
      checked += 1;
      furthest = Math.max(furthest, Math.abs(got - expected[i]![k]!));
    }
  return { checked, furthest, versions: new Set(labelled.map(({ version }) => version)) };
}

function turnsOf(row: Row): Turn[] {
  const turns: Turn[] = [];
  let prompt_ids: number[] = [];
  let generated = 0;
  for (const { token_ids, generation_logprobs: logprobs } of row.message_log) {
    if (logprobs != null) {
      const versions = logprobs.map((_, k) => versionOf(row, generated + k));
      turns.push({ prompt_ids, token_ids, logprobs, versions });
      generated += logprobs.length;
    }
    prompt_ids = [...prompt_ids, ...token_ids];
  }
  return turns;
}

/** Of a generated token; one without a version fails. */
function versionOf({ rollout_id, policy_versions }: Row, at: number): string {
  const run = policy_versions.find(({ start, end }) => start <= at && at < end);
  return run?.version ?? assert.fail(`${rollout_id}: token ${at} has no version`);
}
