/** A Markdown page, taken apart as far as checks need it. */

export interface Piece {
  line: number;
  text: string;
}

export interface Page {
  /** Relative to the project's root. */
  file: string;
  /** Outside of fences, with code in it. */
  prose: Piece[];
  /** Text in code font, one piece each. */
  spans: Piece[];
  /** Lines of fenced blocks; a line that ends with `\` is joined with the next one. */
  code: (Piece & { language: string })[];
  /** The same blocks, whole. */
  blocks: (Piece & { language: string })[];
  /** Targets of links and pictures. */
  links: Piece[];
  headings: (Piece & { anchor: string; level: number })[];
}

/** Something that a page says and that is not so. */
export interface Problem {
  page: string;
  line: number;
  what: string;
}

const FENCE = /^ *(```+|~~~+) *(\S*)/;
const SPAN = /(`+)(.+?)\1(?!`)/g;
const LINK = /!?\[(?:[^\]\\]|\\.)*\]\(([^()\s]+)(?: "[^"]*")?\)/g;

export function pageOf(file: string, text: string): Page {
  const page: Page = { file, prose: [], spans: [], code: [], blocks: [], links: [], headings: [] };
  const anchors = new Map<string, number>();
  let fence: string | null = null;
  text.split('\n').forEach((content, index) => {
    const line = index + 1;
    const [, mark = '', language = ''] = FENCE.exec(content) ?? [];
    if (fence !== null && mark.startsWith(fence)) fence = null;
    else if (fence !== null) addCode(page, { line, text: content });
    else if (mark !== '') {
      fence = mark;
      page.blocks.push({ line, text: '', language });
    } else addProse(page, { piece: { line, text: content }, anchors });
  });
  return page;
}

function addCode({ code, blocks }: Page, { line, text }: Piece): void {
  const block = blocks.at(-1);
  if (block !== undefined) block.text += `${text}\n`;
  const last = code.at(-1);
  if (last?.text.endsWith('\\') === true) last.text = `${last.text.slice(0, -1)} ${text.trim()}`;
  else code.push({ line, text, language: block?.language ?? '' });
}

function addProse(
  page: Page,
  { piece, anchors }: { piece: Piece; anchors: Map<string, number> },
): void {
  const { line, text } = piece;
  page.prose.push(piece);
  for (const [, , span = ''] of text.matchAll(SPAN)) page.spans.push({ line, text: span.trim() });
  const withoutCode = text.replaceAll(SPAN, (span) => 'x'.repeat(span.length));
  for (const [, target = ''] of withoutCode.matchAll(LINK)) page.links.push({ line, text: target });
  const [, marks = '', title = ''] = /^(#{1,6}) +(.+?) *$/.exec(text) ?? [];
  if (marks === '') return;
  const slug = slugOf(title);
  const before = anchors.get(slug) ?? 0;
  anchors.set(slug, before + 1);
  const anchor = before === 0 ? slug : `${slug}-${before}`;
  page.headings.push({ line, text: title, anchor, level: marks.length });
}

/** As GitHub makes them. */
const slugOf = (title: string): string =>
  title
    .toLowerCase()
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-');

/** The lines below a heading, up to the next one of its level. */
export function sectionOf(page: Page, title: string): Piece[] {
  const from = page.headings.find(({ text }) => text.replaceAll('`', '') === title);
  if (from === undefined) throw new Error(`${page.file} has no heading ${JSON.stringify(title)}`);
  const to = page.headings.find(({ line, level }) => line > from.line && level <= from.level);
  return page.prose.filter(({ line }) => line > from.line && line < (to?.line ?? Infinity));
}

/** The rows of a piece of text's first table, as cells without the column headings. */
export function tableOf(section: readonly Piece[]): { line: number; cells: string[] }[] {
  const first = section.findIndex(({ text }) => text.startsWith('|'));
  const rows: { line: number; cells: string[] }[] = [];
  for (const { line, text } of section.slice(first + 2)) {
    if (!text.startsWith('|')) break;
    // A bar within a cell is written `\|`.
    const cells = text.split(/(?<!\\)\|/).slice(1, -1);
    rows.push({ line, cells: cells.map((cell) => cell.trim()) });
  }
  return rows;
}

/** Texts in code font. */
export const codeIn = (text: string): string[] =>
  [...text.matchAll(SPAN)].map(([, , span = '']) => span.trim());

/** As lines that an editor opens. */
export const asLines = (problems: readonly Problem[]): string[] =>
  problems.map(({ page, line, what }) => `${page}:${line}: ${what}`);
