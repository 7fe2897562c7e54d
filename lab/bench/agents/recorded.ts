import path from 'node:path';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { readJsonLines } from '../../bed/json-lines.js';

/** What agents of others have asked: `recorded.jsonl`, written by record.ts. */

export const RECORDED = path.join(PROJECT_ROOT, 'lab/bench/agents/recorded.jsonl');

/** A conversation that only grows. */
export interface Conversation {
  agent: string;
  /** Of each request, beside its messages. */
  head: Record<string, unknown>;
  messages: Record<string, unknown>[];
  /** For each request: how many of the messages it had. */
  asked: number[];
}

export const readRecorded = (): Promise<Conversation[]> => readJsonLines<Conversation>(RECORDED);
