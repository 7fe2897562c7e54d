import { Scan } from './scan.js';

/** As `JSON.stringify` and Python indent it; lines after the first `depth` levels more. Numbers keep their text. */
export function indentedJson(text: string, { depth = 0, width = 2 } = {}): string {
  const scan = new Scan(text);
  const parts: string[] = [];
  let level = depth;
  const line = (): string => `\n${' '.repeat(width * level)}`;
  for (let before = '', first = scan.next(); first !== ''; before = first, first = scan.next()) {
    const opens = before === '{' || before === '[';
    const closes = first === '}' || first === ']';
    if (closes) level -= 1;
    if (opens !== closes || before === ',') parts.push(line());
    parts.push(first === ':' ? ': ' : text.slice(scan.start, scan.end));
    if (first === '{' || first === '[') level += 1;
  }
  return parts.join('');
}
