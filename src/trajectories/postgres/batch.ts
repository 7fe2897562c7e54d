import { writeJson } from '../../platform/json/kept.js';
import type { StoredRequest } from '../../model/stream/stream-request.js';
import type { FoundRequest } from '../request-reader.js';
import type { WrittenRequest } from '../same-batch.js';
import {
  areSameSamples,
  checkSameRequest,
  digestOf,
  otherSamples,
  parseRequest,
  storedRequest,
} from '../same-batch.js';
import type { StoredBatch } from '../trajectory-store.js';
import type { Ask, Database } from './database.js';

/** A batch's request and its samples, put once. */
export interface BatchTables {
  create: (batch: NewBatch) => Promise<{ existed: boolean }>;
  list: () => Promise<StoredBatch[]>;
  lookForRequest: (batchId: string) => Promise<FoundRequest | null>;
  findRequest: (batchId: string) => Promise<StoredRequest | null>;
  /** Its raw JSON. */
  readSample: (batchId: string, row: number) => Promise<string>;
  sampleCount: (batchId: string) => Promise<number>;
}

/** Samples per statement. */
const MOST_AT_ONCE = 1000;
const MOST_BYTES = 4_000_000;

export function createBatchTables(database: Database, schema: string): BatchTables {
  const tables = { batches: `"${schema}".batch`, samples: `"${schema}".sample` };
  return {
    create: (batch) => database.transaction((ask) => createBatch(batch, { ask, tables })),
    list: async () => {
      const text = `select batch_id from ${tables.batches}`;
      const rows = await database.ask<Pick<StoredBatch, 'batch_id'>>({ text, values: [] });
      return rows.map(({ batch_id }) => ({ batch_id, created_ms: null }));
    },
    lookForRequest: async (batchId) => {
      const [row] = await database.ask<FoundRequest>({
        name: 'batch_look',
        text: `select request_digest as identity, octet_length(request) as size from ${tables.batches} where batch_id = $1`,
        values: [batchId],
      });
      return row ?? null;
    },
    findRequest: async (batchId) => {
      const written = await findWritten(batchId, { ask: database.ask, tables });
      return written && storedRequest(written);
    },
    readSample: async (batchId, row) => {
      const [found] = await database.ask<{ sample: string }>({
        name: 'sample_read',
        text: `select sample from ${tables.samples} where batch_id = $1 and "row" = $2`,
        values: [batchId, row],
      });
      if (found === undefined) throw new Error('there is none');
      return found.sample;
    },
    sampleCount: async (batchId) => {
      const [row] = await database.ask<{ samples: number }>({
        text: `select samples from ${tables.batches} where batch_id = $1`,
        values: [batchId],
      });
      if (row === undefined) throw new Error('there is no such batch');
      return row.samples;
    },
  };
}

interface Within {
  ask: Ask;
  tables: { batches: string; samples: string };
}

interface NewBatch {
  batch_id: string;
  request: WrittenRequest;
  samples: readonly string[];
}

/** If two race for the id, the second waits at its first statement until the first has put everything. */
async function createBatch(batch: NewBatch, within: Within): Promise<{ existed: boolean }> {
  const { ask, tables } = within;
  const { batch_id, request, samples } = batch;
  const text = writeJson(request);
  const put = await ask({
    text: `insert into ${tables.batches} (batch_id, request, request_digest, samples, samples_digest)
             values ($1, $2, $3, $4, $5) on conflict do nothing returning batch_id`,
    values: [batch_id, text, digestOf(text), samples.length, digestOf(samples.join('\n'))],
  });
  const existed = put.length === 0;
  await (existed ? checkSame : putSamples)(batch, within);
  return { existed };
}

async function findWritten(
  batchId: string,
  { ask, tables }: Within,
): Promise<WrittenRequest | null> {
  const [row] = await ask<{ request: string }>({
    text: `select request from ${tables.batches} where batch_id = $1`,
    values: [batchId],
  });
  return row === undefined ? null : parseRequest(row.request);
}

async function checkSame({ batch_id, request, samples }: NewBatch, within: Within): Promise<void> {
  const { ask, tables } = within;
  checkSameRequest((await findWritten(batch_id, within)) ?? request, request);
  const [found] = await ask<{ samples_digest: string }>({
    text: `select samples_digest from ${tables.batches} where batch_id = $1`,
    values: [batch_id],
  });
  if (found?.samples_digest === digestOf(samples.join('\n'))) return;
  const theirs = await ask<{ sample: string }>({
    text: `select sample from ${tables.samples} where batch_id = $1 order by "row"`,
    values: [batch_id],
  });
  const texts = theirs.map(({ sample }) => sample);
  if (!areSameSamples(texts, samples)) throw otherSamples(texts, samples);
}

async function putSamples({ batch_id, samples }: NewBatch, { ask, tables }: Within): Promise<void> {
  for (let first = 0; first < samples.length;) {
    const some: string[] = [];
    let bytes = 0;
    for (const sample of samples.slice(first, first + MOST_AT_ONCE)) {
      if (bytes > MOST_BYTES) break;
      some.push(sample);
      bytes += sample.length;
    }
    await ask({
      text: `insert into ${tables.samples} (batch_id, "row", sample)
               select $1, $2 + t.k - 1, t.sample from unnest($3::text[]) with ordinality as t (sample, k)`,
      values: [batch_id, first, some],
    });
    first += some.length;
  }
}
