import { parentPort } from 'node:worker_threads';
import { describeError } from '../../platform/errors.js';
import { writeJson } from '../../platform/json/kept.js';
import type { DialectName } from '../dialects/dialect.js';
import { DIALECTS } from '../dialects/dialects.js';
import { hashedRequest } from './meaning.js';
import type { HashedRequest } from './meaning.js';
import type { Refusal } from './refusals.js';
import { Refused } from './refusals.js';
import type { RequestLimits } from './request.js';

/** What the thread that reads large bodies is asked, and answers. Values that keep their text cross as text. */

export interface BodyToRead {
  body: Uint8Array;
  dialect: DialectName;
  limits: RequestLimits;
}

export type BodyRead = { request: PackedRequest } | { refused: Refusal } | { failed: string };

type PackedRequest = Omit<HashedRequest, 'tools' | 'hashed_tools'> & {
  tools: { hash: string; text: string } | null;
};

function packed({ hashed_tools, ...request }: HashedRequest): PackedRequest {
  return {
    ...request,
    tools: hashed_tools && { hash: hashed_tools.hash, text: writeJson(hashed_tools.tools) },
  };
}

function answerTo({ body, dialect, limits }: BodyToRead): BodyRead {
  try {
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.length);
    return { request: packed(hashedRequest(DIALECTS[dialect].read(bytes, limits))) };
  } catch (error) {
    if (error instanceof Refused) return { refused: error.refusal };
    return { failed: describeError(error) };
  }
}

parentPort?.on('message', (asked: BodyToRead) => {
  parentPort?.postMessage(answerTo(asked));
});
