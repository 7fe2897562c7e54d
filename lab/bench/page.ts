import { spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import path from 'node:path';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { SECTIONS } from './page-sections.js';
import { tablesIn, withReport } from './page-text.js';
import { measuredOn } from './report.js';

/**
 * Measures again and puts the tables into lab/bench/TABLES.md: `npm run bench:page -- NAME …`, or `-- all`. A measurement
 * that fails leaves its place as it was.
 */

const FILE = path.join(PROJECT_ROOT, 'lab/bench/TABLES.md');

const list = (): string =>
  Object.entries(SECTIONS)
    .map(([name, { minutes }]) => `  ${name.padEnd(16)} ${minutes} min`)
    .join('\n');

/** What a program prints; it is shown meanwhile. */
async function printedBy(command: readonly string[]): Promise<string> {
  const [program = '', ...args] = command;
  const child = spawn(program, args, { cwd: PROJECT_ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
    process.stdout.write(text);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject).once('close', resolve);
  });
  if (code === 0) return printed;
  throw new Error(`${command.join(' ')}: expected exit code 0, got ${code ?? 'a signal'}`);
}

async function measure(name: string): Promise<void> {
  const command = SECTIONS[name]?.command ?? [];
  const where = measuredOn(loadavg()[0] ?? 0);
  const tables = tablesIn(await printedBy(command));
  if (tables.length === 0) throw new Error(`${name}: expected a table, got none`);
  const report = [`\`${command.join(' ')}\`: ${where}.`, ...tables].join('\n\n');
  await writeFile(FILE, withReport(await readFile(FILE, 'utf8'), { name, report }));
}

const asked = process.argv.slice(2);
const names = asked.includes('all') ? Object.keys(SECTIONS) : asked;
const unknown = names.filter((name) => !(name in SECTIONS));
if (names.length === 0 || unknown.length > 0) {
  console.error(
    `expected names of measurements, or all, got ${unknown.join(', ') || 'none'}:\n${list()}`,
  );
  process.exit(2);
}
for (const name of names) {
  await measure(name).catch((error: unknown) => {
    console.error(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  });
}
console.log('lab/bench/TABLES.md has the new tables; `npm run format` aligns them');
