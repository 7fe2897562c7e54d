import assert from 'node:assert/strict';
import { continuedBy } from '../../src/gateway/match/connections.js';
import type { CallTree } from '../../src/gateway/match/call-tree.js';
import { createCallTree } from '../../src/gateway/match/call-tree.js';
import type { Glue } from '../../src/gateway/play/glue.js';
import { createGlue } from '../../src/gateway/play/glue.js';
import { matchCall } from '../../src/gateway/match/matching.js';
import type { HashedRequest } from '../../src/gateway/request/meaning.js';
import { hashedRequest } from '../../src/gateway/request/meaning.js';
import { callEntries, promptFor } from '../../src/gateway/play/place-call.js';
import type { AgentRequest } from '../../src/gateway/request/request.js';
import { saidIn } from '../../src/model/calls/parsers/read-answer.js';
import type { Entry, JournalLine } from '../../src/model/journal.js';
import { lineText, parseLine } from '../../src/model/journal.js';
import { isKnown, promptOf } from '../../src/model/journal/calls.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { applyLine, emptyTrajectory } from '../../src/model/journal/trajectory.js';
import { author } from '../fakes/journal-lines.js';
import { decode, END, PARSERS, render, sampledIds } from './toy-template.js';

/** A rollout's agent, gateway, engine and journal in one process, a step at a time. */

/** What really happened with a call, beside the journal. */
export interface Truth {
  request: AgentRequest;
  life: number;
  /** What the engine was sent. */
  sent: number[];
  sampled: number[];
  /** Still to be sampled. */
  left: number[];
  finish: 'stop' | 'length';
  connections: number;
  closed_at: number[];
  /** Lives that were given it whole. */
  delivered: Set<number>;
  /** The newest of the calls that it continues by its messages was given whole to its life, or none was. */
  is_answered: boolean;
}

export interface World {
  lines: JournalLine[];
  truths: Truth[];
  tree: CallTree;
  fold: () => Trajectory;
  life: () => number;
  /** Asks, and returns the number of the call that answers. */
  ask: (
    request: AgentRequest,
    answer: { text: string; finish: 'stop' | 'length' },
  ) => Promise<number>;
  /** Samples some tokens of a call, or ends it. */
  sample: (turn: number, most: number) => void;
  /** The client closes a connection before the end, or has got everything. */
  close: (turn: number, how: 'cut' | 'whole') => void;
  /** Another attempt takes the journal over. */
  claim: () => void;
  /** The program starts again. */
  startAgain: (restart?: 'replay' | 'fresh') => void;
  /** The program ends. */
  exit: () => void;
}

export function createWorld({ history }: { history: 'append' | 'template' }): World {
  const lines: JournalLine[] = [];
  const trajectory = emptyTrajectory();
  const truths: Truth[] = [];
  const tree: CallTree = createCallTree();
  const glue: Glue = createGlue((chat) => Promise.resolve(render(chat)));
  let attempt = 1;
  const by = () => author(`writer-${attempt}`);
  const put = (line: JournalLine): void => {
    const read = parseLine(lineText(line).trim());
    assert.ok(read !== null, `expected a line that reads back, got ${lineText(line)}`);
    lines.push(read);
    applyLine(trajectory, read);
    if (trajectory.lives.length > 0) tree.grow(trajectory.calls);
  };
  const append = (entry: Entry): void => {
    put({ ...entry, writer: by().claim().writer, at: lines.length });
  };
  const life = (): number => trajectory.lives.length;
  const isReplaying = (): boolean => trajectory.lives.at(-1)?.line.restart === 'replay';
  put(by().claim());
  put(by().start({ plays: 'agent', prompt: [] }));
  put(by().life({ life: 1 }));

  const knows = (call: number): boolean =>
    isKnown(trajectory.calls[call]!, life()) || truths[call]?.connections !== 0;
  const matched = (request: HashedRequest): number | null => {
    const calls = trajectory.calls.map((call, number) => {
      const { connections = 0, closed_at = [], delivered = new Set() } = truths[number] ?? {};
      const is_known = knows(number);
      const is_delivered = is_known ? delivered.has(life()) : delivered.size > 0;
      const is_continued = trajectory.calls.some((later) => continuedBy(later) === number);
      return {
        call: number,
        key: call.line.key,
        is_known,
        is_delivered,
        is_handed: false,
        is_continued,
        is_complete: call.answer !== null,
        connections,
        closed_at,
      };
    });
    const match = matchCall(
      { key: request.key, idempotency_key: null, is_retry: false, has_waited: false },
      { calls, named: new Map(), replays: isReplaying() },
    );
    return typeof match === 'object' ? match.attach : null;
  };
  const ask: World['ask'] = async (given, { text, finish }) => {
    const request = hashedRequest(given);
    const known = matched(request);
    if (known !== null) {
      const truth = truths[known];
      if (truth !== undefined) truth.connections += 1;
      return known;
    }
    const { calls, materials } = trajectory;
    const session = { calls, materials, tree, life: life() };
    const chat = (conversation: Parameters<typeof render>[0]) =>
      Promise.resolve(render(conversation));
    const prompt = await promptFor(request, { ...session, history, glue, render: chat });
    const turn = calls.length;
    for (const entry of callEntries(request, {
      ...session,
      prompt,
      isKnown: isReplaying() ? knows : null,
    }))
      append(entry);
    assert.equal(calls.length, turn + 1, 'the call line was ignored');
    const left = sampledIds(finish === 'stop' ? `${text}~` : text, turn);
    truths.push({
      request: given,
      life: life(),
      sent: [...prompt.ids],
      sampled: [],
      left,
      finish,
      connections: 1,
      closed_at: [],
      delivered: new Set(),
      is_answered: false,
    });
    // What the engine is sent comes from the journal.
    assert.deepEqual(promptOf(calls, turn), [...prompt.ids]);
    return turn;
  };
  const answer = (turn: number, truth: Truth): void => {
    const { finish, sampled } = truth;
    const end = {
      turn,
      finish_reason: finish,
      stop_reason: null,
      content: '',
      queue_s: 0,
      generate_s: 0,
    } as const;
    append({ kind: 'generation', ...end, token_count: sampled.length });
    const ids = sampled.at(-1) === END ? sampled.slice(0, -1) : sampled;
    append({ kind: 'answer', turn, ...saidIn(decode(ids), { ...PARSERS, turn }) });
    truth.is_answered = true;
  };
  const sample: World['sample'] = (turn, most) => {
    const truth = truths[turn];
    if (truth === undefined || truth.is_answered) return;
    const token_ids = truth.left.splice(0, most);
    const offset = openAnswer(trajectory, turn).token_ids.length;
    assert.equal(offset, truth.sampled.length);
    if (token_ids.length > 0) {
      const logprobs = token_ids.map((id) => -id / 1e6);
      append({
        kind: 'chunk',
        turn,
        offset,
        token_ids,
        logprobs,
        text: decode(token_ids),
        replica: 'r',
        request_id: `${turn}.${attempt}`,
        policy_version: '1',
      });
      truth.sampled.push(...token_ids);
    }
    if (truth.left.length === 0) answer(turn, truth);
  };
  const close: World['close'] = (turn, how) => {
    const truth = truths[turn];
    if (truth === undefined || truth.connections === 0) return;
    if (how === 'whole' && !truth.is_answered) return;
    truth.connections -= 1;
    if (how === 'cut') truth.closed_at.push(truth.sampled.length);
    else truth.delivered.add(life());
    append({ kind: 'served', turn, life: life(), whole: how === 'whole' });
  };
  const exit = (): void => {
    for (const truth of truths) truth.connections = 0;
    append({ kind: 'exit', life: life(), code: 0, signal: null, tail: '', submission: null });
  };
  return {
    lines,
    truths,
    tree,
    fold: () => trajectory,
    life,
    ask,
    sample,
    close,
    exit,
    claim: () => {
      attempt += 1;
      put(by().claim({ attempt }));
    },
    startAgain: (restart = 'fresh') => {
      exit();
      // A life knows its own connections.
      for (const truth of truths) truth.closed_at = [];
      append({ kind: 'life', life: life() + 1, restart });
    },
  };
}
