import { writeJson } from '../../platform/json/kept.js';
import {
  checkSameRequest,
  checkSameSamples,
  digestOf,
  parseRequest,
  storedRequest,
} from '../same-batch.js';
import type { Batches } from '../store.js';
import type { Ask, Database } from './database.js';

/** Samples per statement. */
const MOST_AT_ONCE = 1000;
const MOST_BYTES = 4_000_000;

interface BatchRow {
  request: string;
  samples: number;
  samples_digest: string;
}

/** A batch's request and its samples, put once. */
export function createBatchTables(database: Database, schema: string): Batches {
  const [batches, samples] = [`"${schema}".batch`, `"${schema}".sample`];
  const rowOf = async (ask: Ask, batchId: string): Promise<BatchRow | undefined> => {
    const text = `select request, samples, samples_digest from ${batches} where batch_id = $1`;
    return (await ask<BatchRow>({ text, values: [batchId] }))[0];
  };
  /** If two race for the id, the second waits at its first statement until the first has put everything. */
  const create = async (ask: Ask, batch: NewBatch): Promise<{ existed: boolean }> => {
    const { batch_id, request } = batch;
    const text = writeJson(request);
    const digest = digestOf(batch.samples.join('\n'));
    const put = await ask({
      text: `insert into ${batches} (batch_id, request, request_digest, samples, samples_digest)
             values ($1, $2, $3, $4, $5) on conflict do nothing returning batch_id`,
      values: [batch_id, text, digestOf(text), batch.samples.length, digest],
    });
    if (put.length > 0) {
      await putSamples(batch, { ask, table: samples });
      return { existed: false };
    }
    const row = await rowOf(ask, batch_id);
    if (row !== undefined) checkSameRequest(parseRequest(row.request), request);
    if (row?.samples_digest !== digest) {
      const theirs = await ask<{ sample: string }>({
        text: `select sample from ${samples} where batch_id = $1 order by "row"`,
        values: [batch_id],
      });
      checkSameSamples(
        theirs.map(({ sample }) => sample),
        batch.samples,
      );
    }
    return { existed: true };
  };
  return {
    createBatch: (batch) => database.transaction((ask) => create(ask, batch)),
    listBatches: async () => {
      const text = `select batch_id from ${batches}`;
      const rows = await database.ask<{ batch_id: string }>({ text });
      return rows.map(({ batch_id }) => ({ batch_id, created_ms: null }));
    },
    look: async (batchId) => {
      const [row] = await database.ask<{ identity: string; size: number }>({
        name: 'batch_look',
        text: `select request_digest as identity, octet_length(request) as size from ${batches} where batch_id = $1`,
        values: [batchId],
      });
      return row ?? null;
    },
    read: async (batchId) => {
      const row = await rowOf(database.ask, batchId);
      return row === undefined ? null : storedRequest(parseRequest(row.request));
    },
    readSample: async (batchId, row) => {
      const [found] = await database.ask<{ sample: string }>({
        name: 'sample_read',
        text: `select sample from ${samples} where batch_id = $1 and "row" = $2`,
        values: [batchId, row],
      });
      if (found === undefined) throw new Error('there is none');
      return found.sample;
    },
    sampleCount: async (batchId) => {
      const text = `select samples from ${batches} where batch_id = $1`;
      const [row] = await database.ask<Pick<BatchRow, 'samples'>>({ text, values: [batchId] });
      if (row === undefined) throw new Error('there is no such batch');
      return row.samples;
    },
  };
}

type NewBatch = Parameters<Batches['createBatch']>[0];

async function putSamples(
  { batch_id, samples }: NewBatch,
  { ask, table }: { ask: Ask; table: string },
): Promise<void> {
  for (let first = 0; first < samples.length;) {
    const some: string[] = [];
    let bytes = 0;
    for (const sample of samples.slice(first, first + MOST_AT_ONCE)) {
      if (bytes > MOST_BYTES) break;
      some.push(sample);
      bytes += sample.length;
    }
    await ask({
      text: `insert into ${table} (batch_id, "row", sample)
               select $1, $2 + t.k - 1, t.sample from unnest($3::text[]) with ordinality as t (sample, k)`,
      values: [batch_id, first, some],
    });
    first += some.length;
  }
}
