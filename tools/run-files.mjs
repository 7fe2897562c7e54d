/**
 * Runs test files in the order in which they are given, for play-files.mjs: `node run-files.mjs JOB`, a JSON file. Node's
 * own command line runs them by name, so the slowest may start last. One report for people, unless the job is `quiet`;
 * one for programs, the same on every version of Node.js: a line of JSON for each process (a file, or a group of files),
 * for each test, and for each count at the end.
 */
import { createWriteStream, readFileSync } from 'node:fs';
import { finished } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';

const { report, quiet, ...job } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const lines = createWriteStream(report);
const events = run(job);
if (!quiet) events.compose(new spec()).pipe(process.stdout);
for await (const { type, data } of events) {
  const line = lineOf(type, data);
  if (line?.failed) process.exitCode = 1;
  if (line !== null) lines.write(`${JSON.stringify(line)}\n`);
}
await finished(lines.end());

function lineOf(type, { name, file, nesting, message, details, todo }) {
  const seconds = (details?.duration_ms ?? 0) / 1000;
  // A process is an event of its own, named as its file.
  if (type === 'test:complete' && nesting === 0 && name === file) return { process: file, seconds };
  if (type === 'test:pass' || type === 'test:fail')
    return {
      test: file,
      name,
      seconds,
      nesting,
      failed: type === 'test:fail' && todo === undefined,
      // Or only a test within it.
      itself: details?.error?.failureType !== 'subtestsFailed',
    };
  const [, what, count] = message?.match(/^(\w+) (\d+)$/) ?? [];
  if (type === 'test:diagnostic' && nesting === 0 && what) return { what, count: Number(count) };
  return null;
}
