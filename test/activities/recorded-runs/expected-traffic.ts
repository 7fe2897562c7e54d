import assert from 'node:assert/strict';
import type { EngineRequest } from '../../servers/scripted-engine.js';
import type { EnvironmentStep } from '../../servers/scripted-environment.js';
import type { GenerationCall, GoldenCase } from './case.js';
import type { Played } from './play.js';
import { maxNewTokens } from './play.js';

/** Every generation and every step was asked for once, as upstream asked for it. */
export function checkTraffic(golden: GoldenCase, { requests, steps }: Played): void {
  assert.deepEqual(inOrder(requests.map(seenRequest)), inOrder(wantedRequests(golden)));
  // Environments of this project's own are not called over the wire, and their calls were not recorded.
  const calls = golden.expected.env_calls;
  if (calls !== undefined || steps.length > 0) {
    assert.deepEqual(inOrder(steps.map(seenStep)), inOrder(wantedSteps(golden)));
  }
}

/** For a run that upstream broke off: its requests until then were also made here. The other rollouts continued. */
export function checkTrafficUntilFailure(golden: GoldenCase, { requests, steps }: Played): void {
  const { generation_calls, env_calls } = golden.expected;
  const placeOf = ({ row, turn }: { row: number; turn: number }): string => `${row}/${turn}`;
  const recorded = new Set(wantedRequests(golden).map(placeOf));
  const seen = requests.map(seenRequest).filter((request) => recorded.has(placeOf(request)));
  if (generation_calls !== undefined) {
    assert.deepEqual(inOrder(seen), inOrder(wantedRequests(golden)));
  }
  const recordedSteps = new Set(wantedSteps(golden).map(placeOf));
  const seenSteps = steps.map(seenStep).filter((step) => recordedSteps.has(placeOf(step)));
  if (env_calls !== undefined) assert.deepEqual(inOrder(seenSteps), inOrder(wantedSteps(golden)));
}

/** A rollout plays by itself: only the order of its own turns is fixed. */
const inOrder = <T extends { row: number; turn: number }>(list: T[]): T[] =>
  list.toSorted((a, b) => a.row - b.row || a.turn - b.turn);

function seenRequest({ row, turn, kind, body, outcome, token_ids, finish_reason }: EngineRequest) {
  return {
    row,
    turn,
    kind,
    outcome,
    prompt_length: body.prompt.length,
    max_tokens: body.max_tokens,
    stop: [...(body.stop ?? [])].sort(),
    temperature: body.temperature,
    logprobs: body.logprobs ?? null,
    generated: token_ids.length,
    finish_reason,
  };
}

/** A prompt that leaves no room is answered without the engine. */
function wantedRequests(golden: GoldenCase) {
  const { expected, config } = golden;
  return (expected.generation_calls ?? [])
    .filter(({ input_length }) => input_length < config.max_seq_len)
    .map((call) => wantedRequest(golden, call));
}

function wantedRequest(golden: GoldenCase, call: GenerationCall) {
  const { config, script } = golden;
  return {
    row: call.sample,
    turn: call.turn,
    kind: 'first',
    outcome: call.raised === undefined ? 'complete' : 'refused',
    prompt_length: call.input_length,
    max_tokens: Math.min(maxNewTokens(golden), config.max_seq_len - call.input_length),
    stop: [...new Set(call.stop_strings)].sort(),
    temperature: call.greedy ? 0 : 1,
    logprobs: script.backend.return_logprobs ? 0 : null,
    generated: call.output_length ?? 0,
    finish_reason: call.finish_reason ?? null,
  };
}

function seenStep({ row, turn, message_log, metadata }: EnvironmentStep) {
  return {
    row,
    turn,
    messages: message_log.length,
    keys: [...new Set(message_log.flatMap((message) => Object.keys(message)))].sort(),
    last_content: message_log.at(-1)?.content,
    metadata,
  };
}

/** Upstream steps many samples at once; how it groups them is its scheduling. */
function wantedSteps({ expected }: GoldenCase) {
  return (expected.env_calls ?? []).flatMap((call) =>
    call.samples.map((row, k) => ({
      row,
      turn: call.turns[k]!,
      messages: call.messages[k]!,
      keys: call.keys,
      last_content: call.last_content[k],
      metadata: call.metadata_in[k],
    })),
  );
}
