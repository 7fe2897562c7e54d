/** Rows of agents' random histories, as Python reads them: each trained token once, behind what it was sampled from. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import { promptOf } from '../../src/model/journal/calls.js';
import type { Row } from '../../src/model/results/row-columns.js';
import type { AgentRollout } from '../gateway/agent-rows.js';
import { agentJournal, linesOf, rolloutOf } from '../gateway/agent-rows.js';
import { install, skip } from '../harness/python-package.js';

const ROLLOUTS = 200;

/**
 * Of each row: what trains, as its whole prefix with the token, and its logprob. Of all together: loss and gradient of a
 * policy with a table of logits, before and after sequences are split in two where they can be.
 */
const READ = `
import copy, json, sys, warnings
import numpy as np
from durable_rollouts import to_arrays
warnings.simplefilter("ignore")
IDS = 1000

def trained(row):
    arrays = to_arrays([row], require_logprobs=False)
    return [
        {"ids": ids[: at + 1].tolist(), "logprob": float(arrays.logprobs[i][at])}
        for i, ids in enumerate(arrays.input_ids)
        for at in np.flatnonzero(arrays.loss_mask[i])
    ]

def split(row):
    """The later half of each sequence's answers becomes a sequence of its own. None: there are none to split."""
    made = copy.deepcopy(row)
    for number, one in enumerate([made, *made["sequences"]]):
        first, at = one.get("fork", 0), one.get("fork", 0)
        begins = []
        for place, message in enumerate(one["message_log"]):
            if at >= (one["prompt_tokens"] if number == 0 else first) and "generation_logprobs" in message:
                begins.append((place, at))
            at += len(message["token_ids"])
        if len(begins) < 2 or not one["train_mask"] or not one.get("train", True):
            continue
        place, fork = begins[len(begins) // 2]
        log, mask = one["message_log"], one["train_mask"]
        own = sum(len(log[k]["token_ids"]) for k, _ in begins if k < place)
        versions = [
            {**run, "start": max(0, run["start"] - own), "end": run["end"] - own}
            for run in one["policy_versions"] if run["end"] > own
        ]
        cut = lambda low, high: [
            {"start": max(run["start"], low), "end": min(run["end"], high)}
            for run in mask if run["start"] < high and run["end"] > low
        ]
        one["train_mask"] = cut(0, fork)
        made["sequences"].append({
            "sequence": len(made["sequences"]) + 1, "parent": number, "fork": fork, "cause": "edited", "train": True,
            "train_mask": cut(fork, at), "policy_versions": versions, "message_log": log[place:],
        })
    return made if len(made["sequences"]) > len(row["sequences"]) else None

def gradient(rows, norm):
    arrays = to_arrays(rows, require_logprobs=False, advantages="grpo", norm=norm)
    random = np.random.default_rng(0)
    table = random.normal(size=(IDS, IDS))
    log = table - np.log(np.exp(table).sum(1, keepdims=True))
    loss, slope = 0.0, np.zeros_like(table)
    for ids, weights, advantage in zip(arrays.input_ids, arrays.weights, arrays.advantages):
        for at in np.flatnonzero(weights):
            before, this, worth = ids[at - 1] % IDS, ids[at] % IDS, float(weights[at]) * float(advantage)
            loss -= worth * log[before, this]
            slope[before] += worth * np.exp(log[before])
            slope[before, this] -= worth
    return loss, slope

rows = [json.loads(line) for line in sys.stdin]
others = [split(row) or row for row in rows]
apart = {}
for norm in ("token", "rollout"):
    (loss, slope), (other, changed) = gradient(rows, norm), gradient(others, norm)
    apart[norm] = [abs(loss - other), float(np.abs(slope - changed).max()), float(np.abs(slope).max())]
count = sum(a is not b for a, b in zip(rows, others))
print(json.dumps({"rows": [trained(row) for row in rows], "split": count, "apart": apart}))
`;

interface Read {
  rows: { ids: number[]; logprob: number }[][];
  split: number;
  /** By norm: of the loss, of the gradient, and how large that is. */
  apart: Record<string, [number, number, number]>;
}

function readRows(rows: readonly Row[]): Read {
  const read = spawnSync(install.python, ['-c', READ], {
    cwd: PYTHON_PACKAGES,
    input: rows.map((row) => JSON.stringify(row)).join('\n'),
    encoding: 'utf8',
    maxBuffer: 2 ** 29,
  });
  assert.equal(read.status, 0, read.stderr);
  return JSON.parse(read.stdout) as Read;
}

/** By all ids up to a sampled token: its logprob, once for each time that it was sampled there. */
function sampledIn({ trajectory: { calls } }: AgentRollout): Map<string, number[]> {
  const all = new Map<string, number[]>();
  for (const [turn, { sampled }] of calls.entries()) {
    const { token_ids, logprobs } = sampled;
    const prompt = promptOf(calls, turn);
    for (const k of token_ids.keys()) {
      const ids = [...prompt, ...token_ids.slice(0, k + 1)].join();
      all.set(ids, [...(all.get(ids) ?? []), logprobs[k]!]);
    }
  }
  return all;
}

describe('rows of agents in Python', { skip }, () => {
  test('train each sampled token at most once, behind its own prefix, and as many as the row says; splitting them changes neither loss nor gradient', async () => {
    const rollouts: AgentRollout[] = [];
    for (const given of fc.sample(agentJournal, 4 * ROLLOUTS)) {
      const one = rolloutOf(await linesOf(given), rollouts.length);
      if (one.row.failure === undefined) rollouts.push(one);
      if (rollouts.length === ROLLOUTS) break;
    }
    const { rows, split, apart } = readRows(rollouts.map(({ row }) => row));
    let trained = 0;
    for (const [i, tokens] of rows.entries()) {
      const { row } = rollouts[i]!;
      const sampled = sampledIn(rollouts[i]!);
      assert.equal(tokens.length, row.all_tokens?.trained);
      for (const { ids, logprob } of tokens) {
        const left = sampled.get(ids.join()) ?? [];
        const at = left.findIndex((said) => Math.abs(said - logprob) < 1e-6);
        assert.ok(
          at !== -1,
          `${row.rollout_id}: a token that was not sampled there, or trains twice`,
        );
        left.splice(at, 1);
      }
      trained += tokens.length;
    }
    assert.ok(
      trained > 500 && split > 3,
      `${trained} tokens, ${split} rows split: this proves little`,
    );
    for (const [norm, [loss, slope, size]] of Object.entries(apart))
      assert.ok(size > 0 && loss < 1e-6 && slope < 1e-6, `${norm}: ${loss}, ${slope}`);
  });
});
