import { parentPort } from 'node:worker_threads';
import { describeError } from '../../platform/errors.js';
import { DIALECTS } from '../dialects/dialects.js';
import { hashedRequest } from './meaning.js';
import type { BodyRead, BodyToRead } from './request-wire.js';
import { packed } from './request-wire.js';

/** Reads bodies, one after the other (request-reader.ts). */

function answerTo({ number, body, dialect, limits }: BodyToRead): BodyRead {
  try {
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.length);
    const read = DIALECTS[dialect].read(bytes, limits);
    if ('refused' in read) return { number, refused: read.refused };
    return { number, request: packed(hashedRequest(read.request)) };
  } catch (error) {
    return { number, failed: describeError(error) };
  }
}

parentPort?.on('message', (asked: BodyToRead) => {
  parentPort?.postMessage(answerTo(asked));
});
