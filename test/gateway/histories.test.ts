/** Random histories of requests against a second, naive model of what should become of them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createCallTree } from '../../src/gateway/match/call-tree.js';
import { hashedRequest } from '../../src/gateway/request/meaning.js';
import type { AgentRequest } from '../../src/gateway/request/request.js';
import type { CallMessage } from '../../src/model/calls/message.js';
import { messageOf } from '../../src/model/calls/message.js';
import { idsOf } from '../../src/model/journal/calls.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { applyLine, emptyTrajectory } from '../../src/model/journal/trajectory.js';
import type { Sequence } from '../../src/model/results/sequences.js';
import { sequencesOf } from '../../src/model/results/sequences.js';
import { foldOf } from '../fakes/journal-lines.js';
import type { Move } from './agent-moves.js';
import { moves, play } from './agent-moves.js';
import type { Truth, World } from './agent-world.js';
import { createWorld } from './agent-world.js';
import { encode, END, newsText, render } from './toy-template.js';

/** `npm test` plays some; `AGENT_HISTORIES=5000 npm test -- gateway/histories` plays as many as one likes. */
const HISTORIES = Number(process.env['AGENT_HISTORIES'] ?? 500);

/** Python's sorted names, without what `meaning.ts` does. */
const sortedJson = (value: unknown): unknown =>
  typeof value !== 'object' || value === null || Array.isArray(value)
    ? value
    : Object.fromEntries(
        Object.entries(value)
          .sort()
          .map(([name, one]) => [name, sortedJson(one)]),
      );

/** The whole message as one text. */
const plain = ({ role, content, tool_calls, tool_call_id }: CallMessage): string =>
  JSON.stringify({
    role,
    content: role === 'assistant' ? content.replace(/\s+$/, '') : content,
    tool_calls:
      tool_calls?.map(({ id, name, arguments: given }) => [
        id,
        name,
        sortedJson(JSON.parse(given)),
      ]) ?? [],
    tool_call_id,
  });

const head = ({ system, tools }: AgentRequest): string => JSON.stringify([system, tools]);
const begins = (short: readonly string[], long: readonly string[]): boolean =>
  short.length <= long.length && short.every((one, k) => one === long[k]);

/** What the model remembers of a call: its conversation as texts. */
interface Remembered {
  asked: string[];
  /** The calls that were there, and to which lives they were given whole. */
  given: ReadonlySet<number>[];
  answered: number;
}

/** The naive model: it compares every request with every call, message by message. */
function createModel(world: World, history: 'append' | 'template') {
  const remembered: Remembered[] = [];
  const whole = (turn: number): string[] => {
    const answer = world.fold().calls[turn]?.answer;
    return [
      ...(remembered[turn]?.asked ?? []),
      ...(answer == null ? [] : [plain(messageOf(answer))]),
    ];
  };
  const saysThoughtsOf = (request: AgentRequest, turn: number): boolean => {
    const { calls } = world.fold();
    return calls.every(({ answer }, number) => {
      const all = whole(number);
      const said = request.messages[all.length - 1];
      const isInPath = number <= turn && answer !== null && begins(all, whole(turn));
      if (!isInPath || said?.reasoning === undefined) return true;
      return (
        said.reasoning.trim() === (answer.reasoning ?? '').trim() || all.length > whole(turn).length
      );
    });
  };
  /** Before the call was asked for: which it continues. */
  const parentOf = (request: AgentRequest): number | null => {
    const asked = request.messages.map(plain);
    let best: { turn: number; length: number; given: boolean } | null = null;
    for (const [turn, truth] of world.truths.entries()) {
      const all = whole(turn);
      const isAnswered = world.fold().calls[turn]?.answer != null;
      if (!isAnswered || head(truth.request) !== head(request) || all.length >= asked.length)
        continue;
      if (!begins(all, asked) || !saysThoughtsOf(request, turn)) continue;
      const given = truth.delivered.has(world.life());
      const isBetter =
        best === null ||
        all.length > best.length ||
        (all.length === best.length && (given || !best.given));
      if (isBetter) best = { turn, length: all.length, given };
    }
    return history === 'append' ? (best?.turn ?? null) : null;
  };
  const expected = (request: AgentRequest): { ids: number[]; kind: 'glue' | 'whole' } => {
    const parent = parentOf(request);
    const truth = parent === null ? undefined : world.truths[parent];
    const system = request.system === null ? [] : [{ role: 'system', content: request.system }];
    if (parent === null || truth === undefined) {
      const tools = request.tools === null ? null : { hash: '', tools: request.tools };
      return { ids: render({ messages: [...system, ...request.messages], tools }), kind: 'whole' };
    }
    const news = request.messages.slice(whole(parent).length);
    const end = truth.sampled.at(-1) === END ? '' : '~';
    return {
      ids: [...truth.sent, ...truth.sampled, ...encode(end + newsText(news))],
      kind: 'glue',
    };
  };
  return {
    expected,
    remember: (request: AgentRequest) =>
      remembered.push({ asked: request.messages.map(plain), given: [], answered: 0 }),
  };
}

/** Without the hash of tools, which only the gateway has. */
const withoutHash = (ids: readonly number[]): string =>
  ids
    .map((id) => String.fromCodePoint(id))
    .join('')
    .replace(/^tools:[^~]*~/, 'tools~');

function fullIds(
  sequences: readonly Sequence[],
  { parent, fork, message_log }: Sequence,
): number[] {
  const above = parent === null ? undefined : sequences[parent];
  const begun = above === undefined ? [] : fullIds(sequences, above).slice(0, fork);
  assert.equal(begun.length, fork);
  return [...begun, ...message_log.flatMap(({ token_ids }) => token_ids)];
}

function checkSequences(trajectory: Trajectory, truths: readonly Truth[]): void {
  const made = sequencesOf(trajectory);
  const { calls } = trajectory;
  if (made === null) {
    assert.equal(calls.length, 0);
    return;
  }
  const { sequences, all_tokens } = made;
  const tokensOf = (turn: number): number[] => calls[turn]?.sampled.token_ids ?? [];
  const seen = new Map<number, Sequence>();
  let trained = 0;
  for (const sequence of sequences) {
    const ids = fullIds(sequences, sequence);
    for (const turn of sequence.calls) {
      assert.ok(!seen.has(turn), `call ${turn} is in two sequences`);
      seen.set(turn, sequence);
      const sent = truths[turn]?.sent ?? [];
      const path = [...sent, ...tokensOf(turn)];
      assert.deepEqual(ids.slice(0, path.length), path);
    }
    const last = sequence.calls.at(-1) ?? 0;
    assert.equal(ids.length, (truths[last]?.sent.length ?? 0) + tokensOf(last).length);
    const sampled = sequence.message_log.flatMap(({ generation_logprobs, token_ids }) =>
      generation_logprobs === undefined ? [] : [{ generation_logprobs, token_ids }],
    );
    for (const { generation_logprobs, token_ids } of sampled)
      assert.deepEqual(
        generation_logprobs,
        token_ids.map((id) => -id / 1e6),
      );
    const expected = sequence.calls.flatMap(tokensOf);
    assert.deepEqual(
      sampled.flatMap(({ token_ids }) => token_ids),
      expected,
    );
    assert.equal(
      sequence.policy_versions.reduce((sum, { start, end }) => sum + end - start, 0),
      expected.length,
    );
    if (sequence.train) trained += expected.length;
    assert.equal(sequence.train, sequence.why === undefined);
  }
  let total = 0;
  for (const turn of calls.keys()) {
    const { length } = tokensOf(turn);
    total += length;
    assert.ok(length === 0 || seen.has(turn), `call ${turn} is in no sequence`);
  }
  assert.deepEqual(all_tokens, { sampled: total, trained, sequences: sequences.length });
  assert.equal(sequences[0].parent, null);
  assert.equal(sequences[0].fork, 0);
}

/** Answers that nobody has read, or that the last life never asked for, train only where something goes on from them. */
function checkTraining(world: World): void {
  const trajectory = world.fold();
  const { sequences = [] } = sequencesOf(trajectory) ?? {};
  const continued = (turn: number): boolean => {
    const path = idsOf(trajectory.calls, turn);
    return world.truths.some(
      ({ sent }, other) =>
        other > turn && sent.length > path.length && path.every((id, k) => id === sent[k]),
    );
  };
  for (const { calls, train } of sequences)
    for (const turn of calls) {
      const truth = world.truths[turn];
      if (truth === undefined) continue;
      const isKnown = truth.life === world.life() || truth.delivered.has(world.life());
      const isRead = truth.delivered.size > 0 && truth.is_answered;
      if (train) assert.ok((isKnown && isRead) || continued(turn), `call ${turn} trains`);
    }
}

interface Counts {
  calls: number;
  attached: number;
  glued: number;
  causes: Record<string, number>;
  untrained: number;
}

async function playHistory(
  all: readonly Move[],
  { history, counts }: { history: 'append' | 'template'; counts: Counts },
): Promise<void> {
  const world = createWorld({ history });
  const model = createModel(world, history);
  const { truths } = world;
  for (const move of all) {
    const before = truths.length;
    const open = truths.map(({ connections, closed_at, delivered }) => ({
      connections,
      closes: closed_at.length,
      isDelivered: delivered.has(world.life()),
    }));
    const expectations = new Map<AgentRequest, ReturnType<typeof model.expected>>();
    const asking: World = {
      ...world,
      ask: (request, answer) => {
        expectations.set(request, model.expected(request));
        return world.ask(request, answer);
      },
    };
    await play(asking, {
      ...move,
      asked: (turn, request) => {
        const isNew = truths.length > before;
        if (!isNew) {
          counts.attached += 1;
          // Only what nobody waits for and nobody has is given again, and only for the same request.
          assert.deepEqual(open[turn]?.connections, 0);
          assert.equal(open[turn].isDelivered, false);
          const same = (of: AgentRequest | undefined) => [
            head(of ?? request),
            of?.messages.map(plain),
          ];
          assert.deepEqual(same(truths[turn]?.request), same(request));
          return;
        }
        counts.calls += 1;
        model.remember(request);
        const expected = expectations.get(request);
        if (expected?.kind === 'glue') {
          counts.glued += 1;
          assert.deepEqual(truths[turn]?.sent, expected.ids);
        } else
          assert.equal(withoutHash(truths[turn]?.sent ?? []), withoutHash(expected?.ids ?? []));
        const line = world.fold().calls[turn]?.line;
        const heads = truths.slice(0, turn).map((truth) => head(truth.request));
        const { cause = 'none' } = line ?? {};
        counts.causes[cause] = (counts.causes[cause] ?? 0) + 1;
        assert.equal(cause === 'first', turn === 0);
        assert.equal(cause === 'separate', turn > 0 && !heads.includes(head(request)));
        const isRepeated = truths
          .slice(0, turn)
          .some(
            ({ request: other }) =>
              head(other) === head(request) &&
              JSON.stringify(other.messages.map(plain)) ===
                JSON.stringify(request.messages.map(plain)),
          );
        if (cause === 'resampled') assert.ok(isRepeated);
        if (isRepeated) assert.ok(['resampled', 'none'].includes(cause), cause);
      },
    });
  }
  checkSequences(world.fold(), truths);
  checkTraining(world);
  counts.untrained += (sequencesOf(world.fold())?.sequences ?? []).filter(
    ({ train }) => !train,
  ).length;
  checkBeginnings(world);
}

/** Every beginning of the journal is a journal. */
function checkBeginnings({ lines, truths, fold, tree }: World): void {
  const growing = emptyTrajectory();
  for (const [k, line] of lines.entries()) {
    applyLine(growing, line);
    if (growing.lives.length === 0) continue;
    if (line.kind === 'answer' || line.kind === 'served' || k % 7 === 0)
      checkSequences(growing, truths);
  }
  assert.deepEqual(growing, fold());
  // Who reads the journal anew finds the same calls as who saw them begin.
  const anew = createCallTree();
  anew.grow(growing.calls);
  for (const { request } of truths) {
    const hashed = hashedRequest(request);
    assert.equal(
      anew.parentOf(hashed, growing.lives.length),
      tree.parentOf(hashed, growing.lives.length),
    );
    assert.deepEqual(anew.nearestTo(hashed), tree.nearestTo(hashed));
  }
  assert.deepEqual(foldOf(lines), fold());
}

describe('of any history of requests', () => {
  for (const history of ['append', 'template'] as const)
    test(`each sampled token is in one sequence, and paths are what the engine was sent (history: ${history})`, async () => {
      const counts: Counts = { calls: 0, attached: 0, glued: 0, causes: {}, untrained: 0 };
      await fc.assert(
        fc.asyncProperty(moves, (all) => playHistory(all, { history, counts })),
        { numRuns: Math.ceil(HISTORIES / 2), includeErrorInReport: true },
      );
      const shown = JSON.stringify(counts);
      const often = (count: number | undefined): void => {
        assert.ok((count ?? 0) > HISTORIES / 100, shown);
      };
      for (const count of [counts.attached, counts.untrained]) often(count);
      for (const cause of ['separate', 'edited', 'shortened', 'resampled'])
        often(counts.causes[cause]);
      often(history === 'append' ? counts.glued : counts.causes['template']);
    });
});
