import type { Page, Piece, Problem } from './page.js';
import { codeIn } from './page.js';

/**
 * Whether a figure that says that it was measured can be measured again. A section that has one names a command, or
 * links to a section of another page, which then has to name one.
 */

const UNIT = String.raw`(?:ms|s|MB|kB|GB|%|×|rows\/s|turns\/s|tokens|minutes)`;
const FIGURE = new RegExp(String.raw`\d\s?${UNIT}(?![\w])`);
const CLAIM = /\b(?:measure[sd]?|medians?|load average|peaks?|took|grew|(?:costs?|takes) \d)\b/i;
const COMMAND =
  /^(?:[A-Z_]+=\S+ )*(?:npm (?:run |test|start)|node |python3? |test\/|temporal-rollout )/;

export function figureProblems(page: Page, pages: ReadonlyMap<string, Page>): Problem[] {
  return claimsOf(page).flatMap((piece) => {
    const section = sectionAt(page, piece.line);
    if (namesCommand(section, page)) return [];
    const linked = page.links.filter(({ line }) => isWithin(section, line));
    if (linked.some(({ text }) => leadsToCommand(text, { page, pages }))) return [];
    const what = `a measured figure, and no command in its section that measures it: ${piece.text.slice(0, 80)}`;
    return [{ page: page.file, line: piece.line, what }];
  });
}

const claimsOf = ({ prose }: Page): Piece[] =>
  prose.filter(({ text }) => CLAIM.test(text) && FIGURE.test(text));

interface Section {
  from: number;
  to: number;
}

/** From the heading above a line to the next one of its level or above. */
function sectionAt({ headings }: Page, line: number): Section {
  const from = headings.findLast((heading) => heading.line <= line && heading.level <= 2);
  const to = headings.find((heading) => heading.line > line && heading.level <= 2);
  return { from: from?.line ?? 0, to: to?.line ?? Infinity };
}

const isWithin = ({ from, to }: Section, line: number): boolean => line >= from && line < to;

function namesCommand(section: Section, { prose, code }: Page): boolean {
  const spans = prose
    .filter(({ line }) => isWithin(section, line))
    .flatMap(({ text }) => codeIn(text));
  const blocks = code.filter(({ line }) => isWithin(section, line)).map(({ text }) => text.trim());
  return [...spans, ...blocks].some((text) => COMMAND.test(text));
}

function leadsToCommand(
  target: string,
  { page, pages }: { page: Page; pages: ReadonlyMap<string, Page> },
): boolean {
  const [relative = '', anchor] = target.split('#');
  const file = new URL(relative, `file:///${page.file}`).pathname.slice(1);
  const other = relative === '' ? page : pages.get(file);
  if (other === undefined || target.startsWith('http')) return false;
  const heading = other.headings.find((found) => found.anchor === anchor);
  const section =
    heading === undefined ? { from: 0, to: Infinity } : sectionAt(other, heading.line);
  return namesCommand(section, other);
}
