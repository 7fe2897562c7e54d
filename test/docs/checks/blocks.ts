import { parse } from 'yaml';
import type { z } from 'zod';
import { BatchRequest } from '../../../src/model/batch-request.js';
import { Sample } from '../../../src/model/sample.js';
import { Config } from '../../../src/workers/config.js';
import { commandsIn, isShell } from './commands.js';
import { inputsIn } from './inputs.js';
import type { Page, Piece, Problem } from './page.js';

/** By which test each block of a page is run, or checked as far as it can be without running it. */

type Block = Page['blocks'][number];

/** A call of `exampleIn` in a test. */
export interface Run {
  test: string;
  page: string;
  has: string;
}

/** A block that no test can run. */
export interface Shown {
  page: string;
  has: string;
  why: string;
}

const CALL = /exampleIn\(\s*'([^'\n]+)',\s*'([^'\n]+)',?\s*\)/g;

export const runsIn = (sources: ReadonlyMap<string, string>): Run[] =>
  [...sources]
    .filter(([file]) => file.endsWith('.test.ts'))
    .flatMap(([test, text]) =>
      [...text.matchAll(CALL)].map(([, page = '', has = '']) => ({ test, page, has })),
    );

/** A block that nobody runs, checks or explains. */
export function blockProblems(
  page: Page,
  { runs, shown }: { runs: readonly Run[]; shown: readonly Shown[] },
): Problem[] {
  const isFor = (block: Block) => (one: { page: string; has: string }) =>
    one.page === page.file && block.text.includes(one.has);
  return page.blocks.flatMap((block) => {
    const own = [...filesOf(block)].flatMap((file) => problemsOfFile(file));
    const isClaimed = runs.some(isFor(block)) || shown.some(isFor(block));
    const left = isClaimed ? [] : unchecked(block, page);
    return [...own, ...left].map((what) => ({ page: page.file, line: block.line, what }));
  });
}

/** What a block has that no check of pages reads. */
function unchecked(block: Block, page: Page): string[] {
  const { language, text } = block;
  if (language === 'yaml')
    return Object.keys(parse(text) as object).length === 0 ? ['no keys'] : [];
  const checked = inputsIn({ ...page, spans: [], blocks: [block], code: codeOf(block) });
  if (language === 'json' || language === 'text')
    return checked.length > 0 ? [] : [`no test runs this block of ${language}`];
  if (!isShell(block)) return [`no test runs this block of ${language}`];
  const programs = codeOf(block).flatMap(({ text }) =>
    commandsIn(text).map(([program]) => program),
  );
  return programs
    .filter((program = '') => program !== '' && !CHECKED.test(program) && !FOREIGN.test(program))
    .map((program) => `no test runs this block, and nothing checks ${program}`);
}

/** `commands.ts` checks what these are given, or a shell has them. */
const CHECKED =
  /^(?:npm|npx|node|python3?|pip|temporal|temporal-rollout|cd|mkdir|export|echo|cat|find)$/;
/** They need another machine, a GPU, rights or a clone; those of this repository's tests name them. */
const FOREIGN =
  /^(?:git|sudo|vllm|sglang|accelerate|gym|examples\/agent\/\.venv\/bin\/pip|\.ci\/run|test\/interop\/\S+\.sh)$/;

/** Lines of commands, joined, without what `cat > file <<'END'` writes. */
function codeOf({ line, text, language }: Block): (Piece & { language: string })[] {
  const bare = text.replaceAll(HEREDOC, '').replaceAll(/\\\n\s*/g, ' ');
  return bare.split('\n').map((one) => ({ line, text: one.trim(), language }));
}

const HEREDOC = /^cat > (\S+) <<'(\w+)'\n([\s\S]*?)\n\2$/gm;
const SCHEMAS: Record<string, z.ZodType> = { 'temporal.yaml': Config, 'batch.json': BatchRequest };

interface Written {
  name: string;
  content: string;
}

const filesOf = ({ text }: Block): Written[] =>
  [...text.matchAll(HEREDOC)].map(([, name = '', , content = '']) => ({ name, content }));

/** Whether a file that a reader is to write is a valid one. */
function problemsOfFile({ name, content }: Written): string[] {
  const isLines = name.endsWith('.jsonl');
  const schema = isLines ? Sample : SCHEMAS[name];
  if (schema === undefined) return [`${name}: nothing checks it`];
  const values = (isLines ? content.split('\n') : [content]).map((one): unknown => parse(one));
  return values.flatMap((value) =>
    (schema.safeParse(value).error?.issues ?? []).map(
      ({ path, message }) => `${name}: ${path.join('.')}: ${message}`,
    ),
  );
}
