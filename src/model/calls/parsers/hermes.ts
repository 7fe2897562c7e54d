import { shapeProblem } from '../../../platform/json/depth.js';
import { isRecord, jsonIn } from '../../../platform/json/object.js';
import { membersOf } from '../../../platform/json/members.js';
import { stringEnd } from '../../../platform/json/scan.js';
import type { ToolCall } from '../message.js';
import { withheld } from './thought.js';

/** Tool calls as Hermes and Qwen write them: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`. */

const OPEN = '<tool_call>';
const CLOSE = '</tool_call>';

export type Called = Pick<ToolCall, 'name' | 'arguments'>;

export interface ReadCalls {
  /** Without calls, and without the blanks behind them. */
  content: string;
  calls: Called[];
  /** How much of the content stands before each call. Absent: all of it. */
  calls_at?: number[];
  /** Calls that do not parse: they stay in the content as they are. */
  malformed: number;
}

/** Reads a text that may still grow: then the result has only what no further text changes. */
export function readHermes(text: string, { ended }: { ended: boolean }): ReadCalls {
  const calls: Called[] = [];
  const places: number[] = [];
  let malformed = 0;
  let content = '';
  /** Where the text begins that is not in `content` yet. */
  let from = 0;
  const take = (end: number): void => {
    const part = text.slice(from, end);
    content += from > 0 && isBehindCall ? part.trimStart() : part;
    if (part.trim() !== '') isBehindCall = false;
  };
  let isBehindCall = false;
  for (let search = 0; ;) {
    const tag = text.indexOf(OPEN, search);
    if (tag === -1) {
      const end = ended ? text.length : text.length - withheld(text, OPEN);
      take(Math.max(from, end));
      break;
    }
    const block = readBlock(text, tag + OPEN.length);
    if (block === 'unfinished' && !ended) {
      take(tag);
      break;
    }
    if (block === 'unfinished' || block === 'malformed') {
      malformed += 1;
      search = tag + OPEN.length;
      continue;
    }
    take(tag);
    calls.push(block.call);
    places.push(content.trimEnd().length);
    from = search = block.end;
    isBehindCall = true;
  }
  // What follows may be a call, and blanks before it are not said.
  const isSettled = ended && calls.length === 0;
  const said = isSettled ? content : content.trimEnd();
  const isBetween = places.some((place) => place < said.length);
  return { content: said, calls, ...(isBetween && { calls_at: places }), malformed };
}

type Block = { call: Called; end: number } | 'malformed' | 'unfinished';

function readBlock(text: string, from: number): Block {
  const start = afterBlanks(text, from);
  if (start === text.length) return 'unfinished';
  if (text[start] !== '{') return 'malformed';
  const end = objectEnd(text, start);
  if (typeof end === 'string') return end;
  const close = afterBlanks(text, end);
  if (!text.startsWith(CLOSE, close))
    return CLOSE.startsWith(text.slice(close)) ? 'unfinished' : 'malformed';
  const call = calledIn(text.slice(start, end));
  return call === null ? 'malformed' : { call, end: close + CLOSE.length };
}

const afterBlanks = (text: string, from: number): number => {
  const blanks = /\s*/y;
  blanks.lastIndex = from;
  return from + (blanks.exec(text)?.[0].length ?? 0);
};

/** Behind the bracket that closes an object. A character that JSON has only in strings ends the search. */
function objectEnd(text: string, start: number): number | 'malformed' | 'unfinished' {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const character = text.charAt(at);
    if (character === '"') {
      const end = stringEnd(text, at);
      if (end === null) return 'unfinished';
      at = end;
    } else if (character === '{' || character === '[') depth += 1;
    else if (character === '}' || character === ']') {
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (!/[\s,:\d+\-.a-zA-Z]/.test(character)) return 'malformed';
  }
  return 'unfinished';
}

function calledIn(json: string): Called | null {
  if (shapeProblem(json) !== null) return null;
  const value = jsonIn(json);
  if (!isRecord(value) || typeof value['name'] !== 'string' || value['name'] === '') return null;
  const given = membersOf(json)?.get('arguments');
  return given?.startsWith('{') === true ? { name: value['name'], arguments: given } : null;
}
