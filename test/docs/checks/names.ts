import type { Page, Problem } from './page.js';
import type { Repository } from './repository.js';

/** Whether names in code font, and variables of the environment, are names in the code. */

interface Known {
  repository: Repository;
  /** Names of other programs. */
  foreign: ReadonlySet<string>;
}

/** `snake_case`, `camelCase`, `PascalCase`: what is no plain word. */
const NAME = /(?<![\w.$/-])(?:[a-z]\w*_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*)(?![\w-])/g;

export function nameProblems(page: Page, { repository, foreign }: Known): Problem[] {
  const isKnown = (name: string): boolean => repository.words.has(name) || foreign.has(name);
  return page.spans.flatMap(({ line, text }) => {
    // Addresses and paths have their own rules.
    const rest = text.replaceAll(/\b[a-z]+:\/\/\S+|\S*\/\S*\.\w+/g, ' ').replaceAll('.', ' ');
    const unknown = [...rest.matchAll(NAME)].map(([name]) => name).filter((name) => !isKnown(name));
    return unknown.map((name) => ({
      page: page.file,
      line,
      what: `\`${name}\` is no name in the code`,
    }));
  });
}

const VARIABLE = /\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b/g;

/** Whether some program reads each variable, or the page itself gives it its name (`api_key_env: NAME`). */
export function variableProblems(page: Page, { repository, foreign }: Known): Problem[] {
  const pieces = [...page.spans, ...page.code];
  const own = new Set(
    pieces.flatMap(({ text }) => [...text.matchAll(/_env: ([A-Z_]+)/g)].map(([, name]) => name)),
  );
  return pieces.flatMap(({ line, text }) => {
    const unread = [...text.matchAll(VARIABLE)]
      .map(([name]) => name)
      .filter((name) => !own.has(name) && !foreign.has(name) && !isRead(name, repository));
    return unread.map((name) => ({ page: page.file, line, what: `no program reads ${name}` }));
  });
}

/** As `env.NAME`, as a key or an argument (`'NAME'`), or by a shell. */
function isRead(name: string, { sources }: Repository): boolean {
  const read = new RegExp(
    `env\\.${name}\\b|['"\`]${name}['"\`]|\\$\\{?${name}\\b|^\\s*${name}(?::| =)`,
    'm',
  );
  return [...sources.values()].some((text) => text.includes(name) && read.test(text));
}

/** Variables that programs of these folders read, as `env.NAME`, `env['NAME']` or `environ["NAME"]`. */
export function variablesRead({ sources }: Repository, folders: readonly string[]): string[] {
  const read = /\benv(?:iron)?(?:\.get\(['"]|\[['"]|\.)([A-Z][A-Z0-9_]+)\b/g;
  const own = [...sources].filter(
    ([file]) => folders.some((folder) => file.startsWith(folder)) && !/\btests?\//.test(file),
  );
  return [
    ...new Set(own.flatMap(([, text]) => [...text.matchAll(read)].map(([, name = '']) => name))),
  ];
}
