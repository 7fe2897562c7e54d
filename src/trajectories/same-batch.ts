import { createHash } from 'node:crypto';
import { IN_PAYLOADS } from '../model/workflow-safe/foreign.js';
import { readJson } from '../platform/json/kept.js';
import { BatchRequest } from '../model/batch-request.js';
import { invalidBatchRequest, preview, problemsOf } from '../model/problems.js';
import { firstDifference } from '../model/request-difference.js';
import type { StoredRequest } from '../model/stream/stream-request.js';
import { StreamRequest, playedAs } from '../model/stream/stream-request.js';

export type WrittenRequest = BatchRequest | StreamRequest;

/** Throws a `SyntaxError` for what this release cannot read. */
export function parseRequest(text: string): WrittenRequest {
  const value = readJson(text, IN_PAYLOADS) as object;
  const schema = 'groups_per_step' in value ? StreamRequest : BatchRequest;
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const said = problemsOf(parsed.error, value).map(({ where, what }) => `${where}: ${what}`);
  throw new SyntaxError(
    `this release cannot read its request (${said.join('; ')}): start workers of the release that wrote it, or start the batch under another id`,
  );
}

export const storedRequest = (written: WrittenRequest): StoredRequest =>
  'groups_per_step' in written ? playedAs(written) : written;

/** A batch id names one request permanently. */
export function checkSameRequest(theirs: WrittenRequest, ours: WrittenRequest): void {
  const difference = firstDifference(theirs, ours);
  if (difference === null) return;
  const { where, before, now } = difference;
  throw invalidBatchRequest([
    {
      where,
      what: `the batch of this id has ${preview(before)}, got ${preview(now)}; use another batch id`,
    },
  ]);
}

export function checkSameSamples(theirs: readonly string[], ours: readonly string[]): void {
  const row = ours.findIndex((sample, i) => sample !== theirs[i]);
  if (row === -1 && theirs.length === ours.length) return;
  throw invalidBatchRequest([
    {
      where: row === -1 ? 'samples' : `samples row ${row}`,
      what: `differs from the batch of this id (${theirs.length} samples there, ${ours.length} here); use another batch id`,
    },
  ]);
}

export const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex');
