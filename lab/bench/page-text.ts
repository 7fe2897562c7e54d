/** lab/bench/TABLES.md as text: each measurement has its place between two markers. */

export const marksOf = (name: string): [begin: string, end: string] => [
  `<!-- ${name} -->`,
  `<!-- /${name} -->`,
];

/** Names of the places that a page has. */
export const placesIn = (page: string): string[] =>
  [...page.matchAll(/^<!-- ([a-z][a-z-]*) -->$/gm)].map(([, name = '']) => name);

/** The page with this report in its place. */
export function withReport(page: string, { name, report }: { name: string; report: string }) {
  const [begin, end] = marksOf(name);
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from === -1 || to < from)
    throw new Error(`lab/bench/TABLES.md: expected ${begin} and ${end}, got a page without them`);
  return `${page.slice(0, from + begin.length)}\n\n${report}\n\n${page.slice(to)}`;
}

/** The tables that a program printed, each with a blank line before it. */
export function tablesIn(printed: string): string[] {
  const blocks: string[][] = [];
  let last: string[] | null = null;
  for (const line of printed.split('\n')) {
    if (!line.startsWith('|')) last = null;
    else if (last === null) blocks.push((last = [line]));
    else last.push(line);
  }
  return blocks.map((lines) => lines.join('\n'));
}
