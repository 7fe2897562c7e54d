import {
  batchType,
  bool,
  Column,
  Endianness,
  field,
  float32,
  float64,
  int32,
  largeUtf8,
  list,
  Table,
  tableToIPC,
  uint8,
  utf8,
  Version,
} from '@uwdata/flechette';
import type { ArrowRow, ArrowType, ColumnName } from '../../model/results/arrow/columns.js';
import { ARROW_COLUMNS } from '../../model/results/arrow/columns.js';

/**
 * rollouts.arrow in pieces: an Arrow IPC stream is its schema, record batches, and an end marker. Buffers are made here
 * from the rows' own arrays; the library frames them.
 */

type DataType = ReturnType<typeof int32>;

const item = (type: unknown): DataType =>
  list(field('item', type as DataType, true)) as unknown as DataType;

const TYPES: Record<ArrowType, DataType> = {
  utf8: utf8() as unknown as DataType,
  large_utf8: largeUtf8() as unknown as DataType,
  int32: int32(),
  float32: float32() as unknown as DataType,
  float64: float64() as unknown as DataType,
  bool: bool() as unknown as DataType,
  'list<int32>': item(int32()),
  'list<uint8>': item(uint8()),
  'list<float32>': item(float32()),
};

const SCHEMA = {
  version: Version.V5,
  endianness: Endianness.Little,
  fields: ARROW_COLUMNS.map(({ name, type, nullable }) => field(name, TYPES[type], nullable)),
  metadata: null,
};

/** What ends a stream: a reader that does not find it has a part of the file. */
export const END = Buffer.from([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);

/** What begins a stream. */
export const HEAD = streamOf([]).subarray(0, -END.length);

/** The bytes of one record batch. */
export const recordBatch = (rows: readonly ArrowRow[]): Buffer =>
  streamOf(ARROW_COLUMNS.map(({ name, type }) => batchOf({ name, type }, rows))).subarray(
    HEAD.length,
    -END.length,
  );

function streamOf(batches: readonly unknown[]): Buffer {
  const columns = SCHEMA.fields.map(
    ({ type }, at) => new Column(batches.length === 0 ? [] : [batches[at] as never], type),
  );
  const bytes = tableToIPC(new Table(SCHEMA, columns), { format: 'stream' });
  if (bytes === null) throw new Error('expected the bytes of an Arrow stream, got none');
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

interface Buffers {
  length: number;
  validity?: Uint8Array;
  nullCount?: number;
  offsets?: Int32Array | BigInt64Array;
  values?: ArrayBufferView;
  children?: unknown[];
}

/** A column of a record batch. */
function batchOf(
  { name, type }: { name: ColumnName; type: ArrowType },
  rows: readonly ArrowRow[],
): unknown {
  const values = rows.map((row) => row[name]);
  const buffers = buffersOf(type, values);
  return madeOf(TYPES[type], { length: rows.length, ...buffers });
}

function madeOf(type: DataType, buffers: Buffers): unknown {
  const Batch = batchType(type) as new (of: object) => unknown;
  const { validity = EMPTY, nullCount = 0, ...others } = buffers;
  return new Batch({ type, validity, nullCount, ...others });
}

const EMPTY = new Uint8Array();

function buffersOf(type: ArrowType, values: readonly unknown[]): Omit<Buffers, 'length'> {
  switch (type) {
    case 'utf8':
      return textBuffers(values as string[], (ends) => Int32Array.from(ends));
    case 'large_utf8':
      return textBuffers(values as string[], (ends) => BigInt64Array.from(ends.map(BigInt)));
    case 'bool':
      return { values: bitsOf(values as boolean[]) };
    case 'int32':
      return { values: Int32Array.from(values as number[]), ...validityOf(values) };
    case 'float32':
      return { values: Float32Array.from(values as number[]) };
    case 'float64':
      return { values: Float64Array.from(values as number[]) };
    case 'list<int32>':
      return listBuffers(int32(), { lists: values as Int32Array[], into: Int32Array });
    case 'list<uint8>':
      return listBuffers(uint8(), { lists: values as Uint8Array[], into: Uint8Array });
    case 'list<float32>':
      return listBuffers(float32(), { lists: values as Float32Array[], into: Float32Array });
  }
}

const endsOf = (parts: readonly { length: number }[]): number[] => {
  let end = 0;
  return [0, ...parts.map(({ length }) => (end += length))];
};

function textBuffers(
  texts: readonly string[],
  offsetsOf: (ends: number[]) => Int32Array | BigInt64Array,
): Omit<Buffers, 'length'> {
  const bytes = texts.map((text) => Buffer.from(text));
  return { offsets: offsetsOf(endsOf(bytes)), values: Buffer.concat(bytes) };
}

type Numbers = Int32Array | Uint8Array | Float32Array;

function listBuffers(
  type: unknown,
  { lists, into }: { lists: readonly Numbers[]; into: new (length: number) => Numbers },
): Omit<Buffers, 'length'> {
  const ends = endsOf(lists);
  const values = new into(ends.at(-1) ?? 0);
  for (const [at, one] of lists.entries()) values.set(one, ends[at] ?? 0);
  const child = madeOf(type as DataType, { length: values.length, values });
  return { offsets: Int32Array.from(ends), children: [child] };
}

/** One bit a value, the first one lowest. */
function bitsOf(values: readonly boolean[]): Uint8Array {
  const bits = new Uint8Array(Math.ceil(values.length / 8));
  for (const [at, value] of values.entries())
    if (value) bits[at >> 3] = (bits[at >> 3] ?? 0) | (1 << (at & 7));
  return bits;
}

/** Without nulls there is none. */
function validityOf(values: readonly unknown[]): Pick<Buffers, 'validity' | 'nullCount'> {
  const nullCount = values.filter((value) => value === null).length;
  if (nullCount === 0) return {};
  return { validity: bitsOf(values.map((value) => value !== null)), nullCount };
}
