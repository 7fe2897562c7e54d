import { readJson, writeJson } from '../../platform/json/kept.js';
import type { DialectName } from '../dialects/dialect.js';
import type { HashedRequest } from './meaning.js';
import type { Refusal } from './refusals.js';
import type { RequestLimits } from './request.js';

/** What the thread that reads large bodies is asked, and answers. Values that keep their text cross as text. */

export interface BodyToRead {
  number: number;
  body: Uint8Array;
  dialect: DialectName;
  limits: RequestLimits;
}

export type BodyRead = { number: number } & (
  { request: PackedRequest } | { refused: Refusal } | { failed: string }
);

export type PackedRequest = Omit<HashedRequest, 'tools' | 'hashed_tools'> & {
  tools: { hash: string; text: string } | null;
};

export function packed({ hashed_tools, ...request }: HashedRequest): PackedRequest {
  return {
    ...request,
    tools: hashed_tools && { hash: hashed_tools.hash, text: writeJson(hashed_tools.tools) },
  };
}

export function unpacked({ tools: given, ...request }: PackedRequest): HashedRequest {
  // Each tool is a value or a text, as it was when it was read.
  const tools = given && (readJson(given.text, ['all']) as unknown[]);
  return {
    ...request,
    tools,
    hashed_tools: given && tools && { hash: given.hash, tools },
  };
}
