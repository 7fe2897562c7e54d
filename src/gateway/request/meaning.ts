import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CallMessage } from '../../model/calls/message.js';
import type { Tools } from '../../model/journal/agent-lines.js';
import { writeJson } from '../../platform/json/kept.js';
import { meaningOfJson } from '../../platform/json/meaning.js';
import type { HashedTools } from '../play/engine.js';
import type { AgentRequest } from './request.js';

/** Two requests that mean the same are one: clients write arguments anew, trim answers, leave thoughts out. */

/** SHA-256. Parts cannot run into one another: each begins with its length. */
function hashOf(...parts: readonly (string | null)[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part === null ? '-' : `${part.length}:`).update(part ?? '');
  return hash.digest('base64url');
}

/** Without thoughts, which many agents leave out. Answers are equal up to blanks at their end. */
const meaningOfMessage = ({
  role,
  content,
  tool_calls = [],
  tool_call_id = '',
}: CallMessage): string[] => [
  role,
  role === 'assistant' ? content.trimEnd() : content,
  JSON.stringify(
    tool_calls.map(({ id, name, arguments: given }) => [id, name, meaningOfJson(given)]),
  ),
  tool_call_id,
];

/** A request with the hashes of all its beginnings, each made from the one before it. */
export interface HashedRequest extends AgentRequest {
  /** The hash of system message and tools: what every call of a sequence has in common. */
  root: string;
  system_hash: string | null;
  hashed_tools: HashedTools | null;
  /** The hashes of the conversation up to each message. */
  said: readonly string[];
  /** The hash of the whole request: the same again is the same request. */
  key: string;
}

export function hashedRequest(request: AgentRequest): HashedRequest {
  const hashing = hashesOf(request);
  for (;;) {
    const step = hashing.next();
    if (step.done === true) return step.value;
  }
}

/** Others have their turn in between: a long conversation takes some 100 ms. */
export async function hashedInTurns(request: AgentRequest): Promise<HashedRequest> {
  const hashing = hashesOf(request);
  for (;;) {
    const step = hashing.next();
    if (step.done === true) return step.value;
    await nextTurn();
  }
}

/** How much is hashed at a time; a message is hashed whole. */
const CHARACTERS_EACH = 256 * 1024;

function* hashesOf(request: AgentRequest): Generator<undefined, HashedRequest, void> {
  const { system, messages, tools, tool_choice, asked } = request;
  const system_hash = system === null ? null : hashOf('system', system);
  const hashed_tools = tools === null ? null : { hash: toolsHash(tools), tools };
  const root = rootOf(system_hash, hashed_tools?.hash ?? null);
  const said: string[] = [];
  let characters = 0;
  for (const message of messages) {
    said.push(nextHash(said.at(-1) ?? root, message));
    characters += lengthOf(message);
    if (characters < CHARACTERS_EACH) continue;
    characters = 0;
    yield;
  }
  const thoughts = messages.map(({ reasoning = null }) => reasoning?.trim() ?? null);
  const { max_tokens, stop, logprobs, one_tool_call, structured } = asked;
  const fewest = one_tool_call === true ? [1] : [];
  const limits = JSON.stringify([max_tokens ?? null, stop ?? [], logprobs ?? null, ...fewest]);
  const choice = meaningOfJson(writeJson(tool_choice ?? 'auto'));
  const format = structured === undefined ? null : meaningOfJson(structured);
  const key = hashOf('key', said.at(-1) ?? root, JSON.stringify(thoughts), choice, limits, format);
  return { ...request, root, system_hash, hashed_tools, said, key };
}

const lengthOf = ({ content, tool_calls = [] }: CallMessage): number =>
  tool_calls.reduce((sum, { arguments: given }) => sum + given.length, content.length);

const toolsHash = (tools: Tools): string => hashOf('tools', meaningOfJson(writeJson(tools)));

/** By the hashes of system message and tools. */
export const rootOf = (system: string | null, tools: string | null): string =>
  hashOf('root', system, tools);

/** The hash of a conversation that goes on with a message. */
export const nextHash = (before: string, message: CallMessage): string =>
  hashOf('message', before, ...meaningOfMessage(message));
