/**
 * Small faults in the core of src, each with the tests that see it (tools/mutants.mjs). Whoever cuts tests shows with
 * them that nothing is lost. Those of the PostgreSQL store, and of what an agent reads, are seen on PostgreSQL alone.
 */

export interface Mutant {
  /** What goes wrong. */
  name: string;
  file: string;
  /** Occurs once in the file. */
  find: string;
  replace: string;
  /** Parts of the paths of test files: as few as see it, in the lowest room. */
  tests: readonly string[];
}

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'a secret in the middle of base64 is not masked',
    file: 'src/platform/secrets.ts',
    find: '...[0, 1, 2].map((offset)',
    replace: '...[0].map((offset)',
    tests: ['platform/secrets'],
  },
  {
    name: 'one turn more than max_rollout_turns',
    file: 'src/model/turn/stop-rules.ts',
    find: 'observations.length >= settings.max_rollout_turns)',
    replace: 'observations.length > settings.max_rollout_turns)',
    tests: ['model/stop-rules'],
  },
  {
    name: 'truncated comes before terminated',
    file: 'src/model/turn/stop-rules.ts',
    find: "if (last?.terminated) return { ended: 'terminated' };",
    replace: "if (last?.terminated && !last.truncated) return { ended: 'terminated' };",
    tests: ['model/stop-rules'],
  },
  {
    name: 'a prompt as long as max_seq_len is played',
    file: 'src/model/turn/stop-rules.ts',
    find: 'promptTokens < max_seq_len) return;',
    replace: 'promptTokens <= max_seq_len) return;',
    tests: ['model/stop-rules'],
  },
  {
    name: 'an observation is not cut at max_seq_len',
    file: 'src/model/turn/stop-rules.ts',
    find: 'token_ids: ids.slice(0, Math.max(0, left)), truncated: true',
    replace: 'token_ids: ids, truncated: true',
    tests: ['model/observation-limit'],
  },
  {
    name: 'a resumed answer draws as its first request did',
    file: 'src/model/turn/seeds.ts',
    find: 'hash32([generation.seed, row, repeat, turn, inherited])',
    replace: 'hash32([generation.seed, row, repeat, turn])',
    tests: ['model/seeds'],
  },
  {
    name: 'only the last turn is rewarded',
    file: 'src/model/journal/reward-sum.ts',
    find: 'total_reward: plus(before.total_reward, step)',
    replace: 'total_reward: step',
    tests: ['model/trajectory-turns'],
  },
  {
    name: 'the first claim keeps the journal',
    file: 'src/model/journal/trajectory.ts',
    find: 'trajectory.writer = claim.writer;',
    replace: 'trajectory.writer ??= claim.writer;',
    tests: ['model/trajectory-writers'],
  },
  {
    name: 'the last generation of a turn wins',
    file: 'src/model/journal/open-answers.ts',
    find: 'call?.answer === null && call.sampled.generation === null ? call.sampled',
    replace: 'call?.answer === null ? call.sampled',
    tests: ['model/trajectory-tokens'],
  },
  {
    name: "a prompt's tokens train",
    file: 'src/model/results/train-mask.ts',
    find: 'if (start >= prompt_tokens && isSampled(message))',
    replace: 'if (isSampled(message))',
    tests: ['model/train-mask'],
  },
  {
    name: 'a sequence forks behind what another one has',
    file: 'src/model/results/sequences.ts',
    find: 'ids: Math.min(at.ids, most.ids)',
    replace: 'ids: at.ids',
    tests: ['model/sequences'],
  },
  {
    name: 'means count rollouts that are no rows',
    file: 'src/model/results/metrics.ts',
    find: 'const valid = all.filter(isValid);',
    replace: 'const valid = [...all];',
    tests: ['model/metrics.test'],
  },
  {
    name: 'a fault is retried once too often',
    file: 'src/model/faults.ts',
    find: '(of_turn[fault.type] ?? 0) >= (most',
    replace: '(of_turn[fault.type] ?? 0) > (most',
    tests: ['model/faults'],
  },
  {
    name: 'any ticket ends an open transfer',
    file: 'src/model/policy/tickets.ts',
    find: 'if (open?.nonce === nonce) return null;',
    replace: 'if (open !== null) return null;',
    tests: ['activities/transfer.test'],
  },
  {
    name: 'tokens as old as max_lag are too old',
    file: 'src/model/workflow-safe/stream/lag.ts',
    find: 'sampled >= version - max_lag',
    replace: 'sampled > version - max_lag',
    tests: ['workflow-safe/stream/lag'],
  },
  {
    name: 'a group is due one step too late',
    file: 'src/model/workflow-safe/stream/pacing.ts',
    find: 'Math.floor((born + settings.max_lag - version)',
    replace: 'Math.ceil((born + settings.max_lag - version)',
    tests: ['workflow-safe/stream/pacing'],
  },
  {
    name: 'a step takes its youngest groups',
    file: 'src/model/workflow-safe/stream/next-step.ts',
    find: 'complete.slice(0, settings.groups_per_step)',
    replace: 'complete.slice(-settings.groups_per_step)',
    tests: ['workflow-safe/stream/next-step'],
  },
  {
    name: 'a group with one valid member is complete',
    file: 'src/model/workflow-safe/trained-reward.ts',
    find: 'const LEAST_VALID = 2;',
    replace: 'const LEAST_VALID = 1;',
    tests: ['workflow-safe/stream/group-outcome'],
  },
  {
    name: 'a logprob far above 0 counts',
    file: 'src/model/logprob.ts',
    find: 'const NOISE = 1e-6;',
    replace: 'const NOISE = 1e-2;',
    tests: ['generation/stream-violations'],
  },
  {
    name: 'a logprob of minus infinity counts',
    file: 'src/model/logprob.ts',
    find: 'value > MINUS_INFINITY',
    replace: 'value >= MINUS_INFINITY',
    tests: ['generation/stream-violations'],
  },
  {
    name: 'fewer logprobs than ids are taken',
    file: 'src/generation/wire/stream-assembler.ts',
    find: `  const got = choice.logprobs?.token_logprobs ?? [];
  const count = choice.token_ids?.length ?? 0;
  if (got.length !== count) {`,
    replace: `  const got = choice.logprobs?.token_logprobs ?? [];
  const count = choice.token_ids?.length ?? 0;
  if (got.length > count) {`,
    tests: ['generation/stream-violations'],
  },
  {
    name: 'a request that just fits is taken for too long',
    file: 'src/generation/wire/generate.ts',
    find: 'room < max_tokens ?',
    replace: 'room <= max_tokens ?',
    tests: ['generation/context-limit'],
  },
  {
    name: '65 tokens wait for the journal',
    file: 'src/sampling/chunk-recorder.ts',
    find: 'const MAX_WAITING = 64;',
    replace: 'const MAX_WAITING = 65;',
    tests: ['sampling/chunk-recorder'],
  },
  {
    name: 'a token waits for the journal for longer than 250 ms',
    file: 'src/sampling/chunk-recorder.ts',
    find: 'const MAX_WAIT_MS = 200;',
    replace: 'const MAX_WAIT_MS = 300;',
    tests: ['sampling/chunk-recorder'],
  },
  {
    name: 'a token is labelled although its replica has moved',
    file: 'src/sampling/labels.ts',
    find: "=== 'current' && isAsSent(now, { replica, ...fence })",
    replace: "=== 'current'",
    tests: ['sampling/labels'],
  },
  {
    name: 'an answer that has filled its room goes on',
    file: 'src/sampling/seam.ts',
    find: 'token_ids.length >= room ?',
    replace: 'token_ids.length > room ?',
    tests: ['sampling/seam'],
  },
  {
    name: 'a resumed answer has the room of a whole one',
    file: 'src/sampling/resume.ts',
    find: 'max_tokens: request.max_tokens - inherited.length,',
    replace: 'max_tokens: request.max_tokens,',
    tests: ['activities/resume-generation'],
  },
  {
    name: 'an id leads out of the store',
    file: 'src/trajectories/store.ts',
    find: 'operation(checkedRollout(ref))',
    replace: 'operation(ref)',
    tests: ['trajectories/places'],
  },
  {
    name: 'a writer of a file does not hear of a claim',
    file: 'src/trajectories/files/journal.ts',
    find: 'if (foreignClaims > 0) throw',
    replace: 'if (foreignClaims > 1) throw',
    tests: ['trajectories/journal.test'],
  },
  {
    name: 'a claim goes on with a torn line',
    file: 'src/trajectories/files/journal.ts',
    find: 'journal.append(`\\n${text}`);',
    replace: 'journal.append(text);',
    tests: ['trajectories/journal-file'],
  },
  {
    name: 'a writer of a table does not hear of a claim',
    file: 'src/trajectories/postgres/journal.ts',
    find: 'if ((await table.writerOf(id, fold.offset)) !== null) throw takenOver(`the journal of ${id}`);',
    replace: '',
    tests: ['trajectories/journal.test'],
  },
  {
    name: "a row that is another writer's counts as stored",
    file: 'src/trajectories/postgres/group-commit.ts',
    find: 'resolve(stored[i] === true);',
    replace: 'resolve(stored[i] !== undefined);',
    tests: ['trajectories/journal.test'],
  },
  {
    name: 'rows behind a heartbeat stay, and are written again',
    file: 'src/trajectories/files/part-writer.ts',
    find: 'await truncate(name(kind, attempt), offset);',
    replace: 'await truncate(name(kind, attempt), size);',
    tests: ['trajectories/outputs-crash'],
  },
  {
    name: 'how a group ended is put twice',
    file: 'src/trajectories/files/facts.ts',
    find: 'return await disk.putOnce(file, text);',
    replace: 'await disk.replaceFile(file, text);\n        return true;',
    tests: ['trajectories/facts'],
  },
  {
    name: 'an agent reads what is not in the journal',
    file: 'src/gateway/deliver/telling.ts',
    find: 'await journal.stored();',
    replace: '',
    tests: ['gateway/postgres'],
  },
  {
    name: 'a replayed call gets the oldest answer, whatever became of it',
    file: 'src/gateway/match/matching.ts',
    find: 'usesOf(b) - usesOf(a) || a.call - b.call',
    replace: 'a.call - b.call',
    tests: ['gateway/matching'],
  },
  {
    name: 'a link leads out of inputs_dir',
    file: 'src/activities/plan/inputs.ts',
    find: 'if (!isInside(found, root))',
    replace: 'if (!isInside(wanted, root))',
    tests: ['activities/read-samples'],
  },
  {
    name: 'a group has one row less than k',
    file: 'src/activities/close/fold-rows.ts',
    find: 'return rows > k ?',
    replace: 'return rows >= k ?',
    tests: ['activities/close-min-k'],
  },
  {
    name: 'a replica is paused before its record says so',
    file: 'src/activities/policy/bring-replica.ts',
    find: 'const noted = { paused_until, failures: 0, is_half: false, ...own };',
    replace: `const noted = { paused_until, failures: 0, is_half: false, ...own };
  await control.pause({ mode: 'keep', cache: 'keep' }, { within_ms: 1000, signal });`,
    tests: ['activities/bring-replica'],
  },
  {
    name: 'a replica is current although its probe differs',
    file: 'src/activities/policy/engine.ts',
    find: 'if (differences.every((difference) => difference <= tolerance)) return;',
    replace: 'if (differences.length >= 0) return;',
    tests: ['activities/bring-replica'],
  },
  {
    name: 'a failed member is replaced when all others have begun',
    file: 'src/workflows/children/refill.ts',
    find: 'const member = replacement() ?? original();',
    replace: 'const member = original() ?? replacement();',
    tests: ['workflows/refill'],
  },
];
