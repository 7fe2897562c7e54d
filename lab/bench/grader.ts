import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { createGraderPool, installedGrader } from '../../src/environments/math/grader-pool.js';

/**
 * `node --import tsx lab/bench/grader.ts`: checks per second of the maths grader, for one process and for one per core,
 * with bare answers and with answers after 4,000 characters of thoughts. The pairs are upstream's recorded ones.
 */
const FOLDER = new URL('../../test/goldens/math/', import.meta.url);
const ROUNDS = 3;
const THOUGHTS =
  'We substitute $x = \\frac{a+b}{2}$ and get $x^2 - 3x + 2 = 0$, so that 3 + 4 = 7. '.repeat(48);

interface Case {
  ground_truth: string;
  response: string;
}

const cases = readdirSync(FOLDER)
  .filter((name) => name.startsWith('hf_'))
  .flatMap((name) => {
    const text = readFileSync(new URL(name, FOLDER), 'utf8');
    return (JSON.parse(text) as { cases: Case[] }).cases;
  });

console.log('| processes | bare answers | with reasoning |\n| ---: | ---: | ---: |');
for (const max_processes of new Set([1, availableParallelism()])) {
  const rates: string[] = [];
  for (const thoughts of ['', THOUGHTS])
    rates.push((await checksPerSecond({ max_processes, thoughts })).toFixed(0));
  console.log(`| ${max_processes} | ${rates.join(' | ')} |`);
}

async function checksPerSecond({
  max_processes,
  thoughts,
}: {
  max_processes: number;
  thoughts: string;
}): Promise<number> {
  const pool = createGraderPool({
    ...installedGrader({ env: process.env, say: console.error }),
    max_processes,
  });
  const compare = ({ ground_truth, response }: Case): Promise<unknown> =>
    pool.compare(
      { gold: `\\boxed{${ground_truth}}`, answer: thoughts + response },
      new AbortController().signal,
    );
  await Promise.all(cases.slice(0, 2 * max_processes).map(compare));
  const startedAt = performance.now();
  const pairs = Array.from({ length: ROUNDS }, () => cases).flat();
  await Promise.all(pairs.map(compare));
  const rate = (1000 * pairs.length) / (performance.now() - startedAt);
  await pool.close();
  return rate;
}
