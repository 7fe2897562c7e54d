import {
  batchType,
  bool,
  Column,
  columnFromArray,
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
import type { ArrowRow, ArrowType } from '../../model/results/arrow/columns.js';
import { ARROW_COLUMNS } from '../../model/results/arrow/columns.js';

/**
 * rollouts.arrow in pieces: an Arrow IPC stream is its schema, record batches, and an end marker.
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

/** The end of a stream. A reader that does not find it has only a part of the file. */
export const END = Buffer.from([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);

export const HEAD = streamOf(SCHEMA.fields.map(({ type }) => new Column([], type))).subarray(
  0,
  -END.length,
);

export const recordBatch = (rows: readonly ArrowRow[]): Buffer =>
  streamOf(
    ARROW_COLUMNS.map(({ name, type }) =>
      columnOf(
        type,
        rows.map((row) => row[name]),
      ),
    ),
  ).subarray(HEAD.length, -END.length);

function streamOf(columns: readonly Column<unknown>[]): Buffer {
  const bytes = tableToIPC(new Table(SCHEMA, [...columns]), { format: 'stream' });
  if (bytes === null) throw new Error('expected the bytes of an Arrow stream, got none');
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Lists are copied whole: the library would take their numbers one by one. */
function columnOf(type: ArrowType, values: readonly unknown[]): Column<unknown> {
  switch (type) {
    case 'list<int32>':
      return listColumn(TYPES[type], { lists: values as Int32Array[], into: Int32Array });
    case 'list<uint8>':
      return listColumn(TYPES[type], { lists: values as Uint8Array[], into: Uint8Array });
    case 'list<float32>':
      return listColumn(TYPES[type], { lists: values as Float32Array[], into: Float32Array });
    default:
      return columnFromArray([...values], TYPES[type]);
  }
}

type Numbers = Int32Array | Uint8Array | Float32Array;

function listColumn(
  type: DataType,
  { lists, into }: { lists: readonly Numbers[]; into: new (length: number) => Numbers },
): Column<unknown> {
  const offsets = new Int32Array(lists.length + 1);
  for (const [at, { length }] of lists.entries()) offsets[at + 1] = (offsets[at] ?? 0) + length;
  const values = new into(offsets.at(-1) ?? 0);
  for (const [at, one] of lists.entries()) values.set(one, offsets[at] ?? 0);
  const [item] = (type as unknown as { children: { type: DataType }[] }).children;
  const child = madeOf(item?.type ?? type, { length: values.length, values });
  return new Column([madeOf(type, { length: lists.length, offsets, children: [child] }) as never]);
}

const EMPTY = new Uint8Array();

function madeOf(type: DataType, buffers: object): unknown {
  const Batch = batchType(type) as new (of: object) => unknown;
  return new Batch({ type, validity: EMPTY, nullCount: 0, ...buffers });
}
