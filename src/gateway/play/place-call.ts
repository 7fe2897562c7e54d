import type { Entry } from '../../model/journal.js';
import type { JournalCall } from '../../model/journal/calls.js';
import { idsOf, lengthOf, saidIds } from '../../model/journal/calls.js';
import type { Lives } from '../../model/journal/lives.js';
import type { Sampled } from '../../model/journal/open-answers.js';
import { joinedIds } from '../../model/token-id.js';
import type { CallTree } from '../match/call-tree.js';
import type { End, Glue } from './glue.js';
import type { HashedRequest } from '../request/meaning.js';
import type { RenderConversation } from './engine.js';

export interface Placed extends Pick<Lives, 'materials'> {
  calls: readonly JournalCall[];
  tree: CallTree;
  life: number;
}

export interface Prompt {
  ids: readonly number[];
  /** The call whose ids it continues by what the template puts behind its answer; null: it was rendered whole. */
  joined: number | null;
}

/** The part that asks the engine; meanwhile other calls may begin. Throws what `render` throws. */
export async function promptFor(
  request: HashedRequest,
  {
    calls,
    tree,
    life,
    history,
    glue,
    render,
  }: Placed & { history: 'append' | 'template'; glue: Glue; render: RenderConversation },
): Promise<Prompt> {
  const parent = history === 'append' ? tree.parentOf(request, life) : null;
  const answered = parent === null ? undefined : calls[parent];
  if (parent !== null && answered?.answer) {
    const news = request.messages.slice(tree.lengthOf(parent));
    const end = endOf(answered.sampled);
    const { tool_calls } = answered.answer;
    const more = await glue({ end, calls: tool_calls, news, tools: request.hashed_tools });
    if (more !== null) return { ids: joinedIds([idsOf(calls, parent), more]), joined: parent };
  }
  const { system, messages, hashed_tools: tools } = request;
  const first = system === null ? [] : [{ role: 'system', content: system }];
  return { ids: await render({ messages: [...first, ...messages], tools }), joined: null };
}

function endOf({ token_ids, generation }: Pick<Sampled, 'token_ids' | 'generation'>): End {
  const id = token_ids.at(-1);
  if (id === undefined || generation?.finish_reason !== 'stop') return null;
  const { stop_reason } = generation;
  if (typeof stop_reason === 'string') return null;
  return { id, by: stop_reason === null ? 'eos' : 'stop_token' };
}

type CallEntry = Extract<Entry, { kind: 'call' }>;
type MaterialEntry = Extract<Entry, { kind: 'material' }>;

interface Placing extends Placed {
  prompt: Prompt;
  /** Whether a life that replays began this call, or was given it. null: it does not replay. */
  isKnown: ((call: number) => boolean) | null;
}

/** The lines that begin the call. Nothing may be folded between this and their appending. */
export function callEntries(
  request: HashedRequest,
  placing: Placing,
): (CallEntry | MaterialEntry)[] {
  const { calls, tree, life, prompt } = placing;
  const { system_hash, messages, asked, stream, key } = request;
  const { ids } = prompt;
  const shared = longestShared(calls, ids);
  const { parent = null, message, cause, diverged } = placeOf(request, { ...placing, shared });
  const known = parent === null ? 0 : (message ?? tree.lengthOf(parent));
  const begun = cause === undefined ? wholeOf(calls, parent) : (shared?.ids ?? 0);
  const call: CallEntry = {
    kind: 'call',
    turn: calls.length,
    life,
    key,
    parent,
    ...(message !== undefined && { message }),
    ...(cause !== undefined && { cause }),
    ...(diverged !== undefined && { diverged }),
    ...(cause !== undefined && shared !== null && { fork: shared }),
    stream,
    system: system_hash,
    tools: toolsOf(request),
    news: messages.slice(known),
    prompt_ids: ids.slice(begun),
    asked,
  };
  return [...newMaterials(request, placing), call];
}

function newMaterials(
  { hashed_tools, system_hash, system }: HashedRequest,
  { materials }: Pick<Lives, 'materials'>,
): MaterialEntry[] {
  const all: MaterialEntry[] = [];
  if (system_hash !== null && system !== null)
    all.push({ kind: 'material', hash: system_hash, system });
  if (hashed_tools !== null) all.push({ kind: 'material', ...hashed_tools });
  return all.filter(({ hash }) => !materials.has(hash));
}

function wholeOf(calls: readonly JournalCall[], call: number | null): number {
  const of = call === null ? undefined : calls[call];
  return of === undefined ? 0 : lengthOf(of);
}

type Cause = Pick<CallEntry, 'cause' | 'diverged'>;
type Place = Cause & Pick<CallEntry, 'message'> & { parent?: number };
type Shared = { call: number; ids: number } | null;

function placeOf(request: HashedRequest, placing: Placing & { shared: Shared }): Place {
  const { calls, tree, prompt } = placing;
  const continued = prompt.joined ?? continuedBy(request, placing);
  if (continued !== null) {
    const messages = tree.sharedWith(request, continued);
    const isShorter = messages < tree.lengthOf(continued);
    const place = { parent: continued, ...(isShorter && { message: messages }) };
    if (!isContinued(calls, continued)) return place;
    return { ...place, ...causeOf(request, { ...placing, is_branch: true }) };
  }
  const near = tree.nearestTo(request);
  return {
    ...(near !== null && { parent: near.call, message: near.messages }),
    ...causeOf(request, { ...placing, is_branch: false }),
  };
}

/** A call whose prompt and answer begin these ids, and which has the same tools. */
function continuedBy(
  request: HashedRequest,
  { calls, shared }: { calls: readonly JournalCall[]; shared: Shared },
): number | null {
  for (let at: Shared = shared; at !== null;) {
    const call: JournalCall | undefined = calls[at.call];
    if (call === undefined) return null;
    const isWhole = call.answer !== null && at.ids === lengthOf(call);
    if (isWhole && call.line.tools === toolsOf(request)) return at.call;
    at = call.from;
  }
  return null;
}

const isContinued = (calls: readonly JournalCall[], parent: number): boolean =>
  calls.some(({ from }) => from?.call === parent && from.ids === wholeOf(calls, parent));

function causeOf(
  request: HashedRequest,
  { is_branch, ...placing }: Placing & { is_branch: boolean },
): Cause {
  const { calls, tree, life } = placing;
  if (calls.length === 0) return { cause: 'first' };
  const diverged = divergenceOf(request, placing);
  if (diverged !== null) return { cause: 'diverged', diverged };
  const near = tree.nearestTo(request);
  if (near === null) return { cause: 'separate' };
  const asked = tree.lengthOf(near.call) - (calls[near.call]?.answer == null ? 0 : 1);
  const count = request.messages.length;
  if (near.messages === count && asked === count) return { cause: 'resampled' };
  if (!is_branch && tree.parentOf(request, life) !== null) return { cause: 'template' };
  return { cause: count < asked ? 'shortened' : 'edited' };
}

/** The call with most of these ids at its beginning, and how many; an answer is shared whole, as it was sampled. */
function longestShared(calls: readonly JournalCall[], ids: readonly number[]): Shared {
  const shared: number[] = [];
  let longest: Shared = null;
  for (const [number, call] of calls.entries()) {
    const { from, line, prompt_length } = call;
    const begun = from?.ids ?? 0;
    const before = from === null ? 0 : (shared[from.call] ?? 0);
    let end = Math.min(begun, before);
    if (end === begun) end += equal(line.prompt_ids, { ids, from: end });
    const tokens = saidIds(call);
    const isWhole =
      end === prompt_length &&
      tokens.length > 0 &&
      equal(tokens, { ids, from: end }) === tokens.length;
    if (isWhole) end += tokens.length;
    shared.push(end);
    if (end > (longest?.ids ?? 0)) longest = { call: number, ids: end };
  }
  return longest;
}

/** How many of a list's entries stand in the ids, one after the other. */
function equal(
  list: readonly number[],
  { ids, from }: { ids: readonly number[]; from: number },
): number {
  let length = 0;
  while (length < list.length && list[length] === ids[from + length]) length += 1;
  return length;
}

/** Where a life that replays asks something else than the ones before it. */

/** The earlier call that would have been the same, and how many messages are; absent: system message or tools differ. */
interface Divergence {
  call: number;
  message?: number;
}

/** null: it goes on where earlier lives have not been. Once for each life: what follows follows from that. */
function divergenceOf(
  request: HashedRequest,
  { calls, tree, life, isKnown }: Placing,
): Divergence | null {
  if (isKnown === null) return null;
  if (calls.some(({ line }) => line.life === life && line.cause === 'diverged')) return null;
  const numbers = [...calls.keys()];
  const known = numbers.filter(isKnown);
  const keys = new Set(known.map((call) => calls[call]?.line.key));
  const missed = numbers.filter((call) => !isKnown(call) && !keys.has(calls[call]?.line.key));
  const [nearest] = placesIn(missed, { request, calls, tree });
  if (nearest === undefined) {
    const [first] = missed.filter((call) => isAlike(request, calls[call]));
    return first === undefined || known.length > 0 ? null : { call: first };
  }
  const [own] = placesIn(known, { request, calls, tree });
  if (own !== undefined && own.message > nearest.message) return null;
  return nearest;
}

/** Where both differ it is another conversation: of those that begin at once, any may be the first. */
const isAlike = (request: HashedRequest, call: JournalCall | undefined): boolean =>
  call?.line.system === request.system_hash || call?.line.tools === toolsOf(request);

const toolsOf = ({ hashed_tools }: HashedRequest): string | null => hashed_tools?.hash ?? null;

/** Places in calls with its system message and tools, the nearest and earliest first. */
const placesIn = (
  numbers: readonly number[],
  { request, calls, tree }: Pick<Placed, 'calls' | 'tree'> & { request: HashedRequest },
): Required<Divergence>[] =>
  numbers
    .filter((call) => {
      const { system, tools } = calls[call]?.line ?? {};
      return system === request.system_hash && tools === toolsOf(request);
    })
    .map((call) => ({ call, message: tree.sharedWith(request, call) }))
    .sort((a, b) => b.message - a.message || a.call - b.call);
