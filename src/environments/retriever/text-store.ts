import { createGrowingList } from './growing-list.js';

const CHUNK_BYTES = 4 * 2 ** 20;

/** Texts as UTF-8 outside the JavaScript heap, where a corpus would be walked at every garbage collection. */
export function createTextStore() {
  const chunks: Buffer[] = [];
  const list = () => createGrowingList((length) => new Uint32Array(length));
  // For each text: its chunk, its first byte there and its size.
  const [chunkOf, startOf, sizeOf] = [list(), list(), list()];
  let used = CHUNK_BYTES;
  return {
    add: (text: string): void => {
      const size = Buffer.byteLength(text);
      if (used + size > CHUNK_BYTES) {
        chunks.push(Buffer.allocUnsafeSlow(Math.max(size, CHUNK_BYTES)));
        used = 0;
      }
      const chunk = chunks.length - 1;
      chunks[chunk]?.write(text, used);
      chunkOf.push(chunk);
      startOf.push(used);
      sizeOf.push(size);
      used += size;
    },
    get: (id: number): string => {
      const start = startOf.at(id);
      return chunks[chunkOf.at(id)]?.toString('utf8', start, start + sizeOf.at(id)) ?? '';
    },
    bytes: (): number => chunks.reduce((total, { length }) => total + length, 0),
  };
}
