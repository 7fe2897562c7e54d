/**
 * A reporter of Node's test runner for programs: a line of JSON for each process (a file, or a group of files), for each
 * test, and for each count at the end. The same on every version of Node.js, as its text reports are not.
 */
export default async function* jsonl(events) {
  for await (const { type, data } of events) {
    const line = lineOf(type, data);
    if (line !== null) yield `${JSON.stringify(line)}\n`;
  }
}

function lineOf(type, { name, file, nesting, message, details }) {
  const seconds = (details?.duration_ms ?? 0) / 1000;
  // A process is an event of its own, named as its file.
  if (type === 'test:complete' && nesting === 0 && name === file) return { process: file, seconds };
  if (type === 'test:pass' || type === 'test:fail')
    return { test: file, seconds, nesting, failed: type === 'test:fail' };
  const [, what, count] = message?.match(/^(\w+) (\d+)$/) ?? [];
  if (type === 'test:diagnostic' && nesting === 0 && what) return { what, count: Number(count) };
  return null;
}
