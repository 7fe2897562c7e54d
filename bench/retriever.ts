import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createRetrievers } from '../src/environments/retriever/open-retriever.js';
import { RetrieverSettings } from '../src/environments/retriever/settings.js';
import { createRandom } from '../src/dev/simulator/random.js';

/**
 * `node --expose-gc --import tsx bench/retriever.ts`: the time and memory of an index of documents with 90 words each,
 * whose frequencies follow those of a language (Zipf), and the time of queries with eight such words.
 */
const VOCABULARY = 50_000;
const WORDS = 90;
const QUERIES = 500;

const random = createRandom(1);
/** Rank r with a probability of about 1/r. */
const word = (): string => `w${Math.floor(VOCABULARY ** random())}`;
const words = (count: number): string => Array.from({ length: count }, word).join(' ');

function* documents(count: number): Generator<string> {
  for (let id = 0; id < count; id++) yield `${JSON.stringify({ id, text: words(WORDS) })}\n`;
}

function heldBytes(): number {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function measure(count: number, folder: string): Promise<void> {
  const corpus = path.join(folder, `${count}.jsonl`);
  await pipeline(documents(count), createWriteStream(corpus));
  const settings = RetrieverSettings.parse({ kind: 'retriever', corpus });
  const open = createRetrievers({ settingsOf: () => settings, report: () => undefined });
  const before = heldBytes();
  const startedAt = performance.now();
  const retriever = await open('documents');
  const build_s = (performance.now() - startedAt) / 1000;
  const held = (heldBytes() - before) / 2 ** 20;
  const times = Array.from({ length: QUERIES }, () => {
    const query = words(8);
    const asked = performance.now();
    retriever.search(query);
    return performance.now() - asked;
  }).sort((a, b) => a - b);
  const at = (share: number): string => (times[Math.floor(share * QUERIES)] ?? NaN).toFixed(2);
  console.log(
    `| ${count} | ${build_s.toFixed(1)} | ${held.toFixed(0)} | ${at(0.5)} | ${at(0.99)} |`,
  );
}

console.log(`Node.js ${process.versions.node}, load average ${(loadavg()[0] ?? 0).toFixed(1)}\n`);
console.log('| documents | build s | held MB | query ms, median | query ms, 99 % |');
console.log('| ---: | ---: | ---: | ---: | ---: |');
const folder = await mkdtemp(path.join(tmpdir(), 'bench-retriever-'));
try {
  for (const count of [10_000, 100_000]) await measure(count, folder);
} finally {
  await rm(folder, { recursive: true });
}
