import { open, type FileHandle } from 'node:fs/promises';
import { tableFromIPC } from '@uwdata/flechette';
import { CorpusProblem, expectedColumn, textIn } from './problem.js';

/** A column of an Arrow file (format of streams or of files), with one batch of rows in memory. */
export async function* arrowTexts(path: string, column: string): AsyncGenerator<string> {
  const file = await open(path);
  try {
    // What a batch needs to be read: the schema, and dictionaries before it.
    const head: Uint8Array[] = [];
    let row = 0;
    for await (const { type, bytes } of messagesOf(file)) {
      if (type !== RECORD_BATCH) {
        head.push(bytes);
        continue;
      }
      const table = tableFromIPC([...head, bytes]);
      if (!table.names.includes(column))
        throw new CorpusProblem({ at: '', what: expectedColumn(column, table.names) });
      for (const value of table.getChild(column)) {
        row += 1;
        yield textIn(value, { column, row });
      }
    }
  } finally {
    await file.close();
  }
}

const RECORD_BATCH = 3;
const FILE_FORMAT = Buffer.from('ARROW1\0\0');
const CONTINUES = 0xffffffff;

/** Each message's type, and all its bytes as they are in the file. */
async function* messagesOf(file: FileHandle) {
  let position = (await readAt(file, { position: 0, size: 8 })).equals(FILE_FORMAT) ? 8 : 0;
  for (;;) {
    const prefix = await readAt(file, { position, size: 8 });
    // A stream ends with its file, or with an empty message.
    if (position > 0 && prefix.length === 0) return;
    if (prefix.length < 8 || prefix.readUInt32LE(0) !== CONTINUES)
      throw new Error('expected an Arrow file, as `datasets` saves it');
    const head_bytes = prefix.readUInt32LE(4);
    if (head_bytes === 0) return;
    const head = await readWhole(file, { position: position + 8, size: head_bytes });
    const { type, body_bytes } = factsOf(head);
    const size = 8 + head_bytes + body_bytes;
    yield { type, bytes: await readWhole(file, { position, size }) };
    position += size;
  }
}

/** Two fields of a message's FlatBuffer: which header it has, and how long its body is. */
function factsOf(head: Buffer): { type: number; body_bytes: number } {
  const table = head.readUInt32LE(0);
  const fields = table - head.readInt32LE(table);
  const placeOf = (field: number): number | null => {
    const offset = field < head.readUInt16LE(fields) ? head.readUInt16LE(fields + field) : 0;
    return offset === 0 ? null : table + offset;
  };
  const [type, body] = [placeOf(6), placeOf(10)];
  return {
    type: type === null ? 0 : head.readUInt8(type),
    body_bytes: body === null ? 0 : Number(head.readBigInt64LE(body)),
  };
}

/** Fewer bytes at the end of the file. In a buffer of its own, because numbers in it are read at multiples of 8. */
async function readAt(
  file: FileHandle,
  { position, size }: { position: number; size: number },
): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(size);
  let done = 0;
  while (done < size) {
    const { bytesRead } = await file.read(bytes, done, size - done, position + done);
    if (bytesRead === 0) break;
    done += bytesRead;
  }
  return bytes.subarray(0, done);
}

async function readWhole(file: FileHandle, range: Parameters<typeof readAt>[1]): Promise<Buffer> {
  const bytes = await readAt(file, range);
  if (bytes.length === range.size) return bytes;
  throw new Error('expected an Arrow file, got one that ends early');
}
