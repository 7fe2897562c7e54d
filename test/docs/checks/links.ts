import path from 'node:path';
import type { Page, Problem } from './page.js';
import type { Repository } from './repository.js';

/** Whether links, and paths in code font, lead somewhere in a clone. */

export function linkProblems(
  page: Page,
  { repository, pages }: { repository: Repository; pages: ReadonlyMap<string, Page> },
): Problem[] {
  return page.links.flatMap(({ line, text }) => {
    if (/^[a-z]+:/.test(text)) return [];
    const [target = '', anchor] = text.split('#');
    const file = target === '' ? page.file : path.posix.join(path.posix.dirname(page.file), target);
    const place = file.replace(/\/$/, '');
    if (place !== '.' && place !== '..' && !repository.paths.has(place))
      return [{ page: page.file, line, what: `${text}: no file ${place}` }];
    if (anchor === undefined) return [];
    const anchors = pages.get(place)?.headings.map((heading) => heading.anchor);
    if (anchors?.includes(anchor) === true) return [];
    return [{ page: page.file, line, what: `${text}: ${place} has no heading for #${anchor}` }];
  });
}

/** `SKILL.md` is NeMo Gym's. */
const PAGE = /(?<![\w/.-])(?!SKILL)(?:[\w-]+\/)*[\w-]+\.md(?:#[\w-]+)?/g;

/** Pages that programs name, in messages and comments, from the root or from their own folder. */
export function mentionProblems(
  { sources, paths }: Repository,
  pages: ReadonlyMap<string, Page>,
): Problem[] {
  const programs = [...sources].filter(([file]) => !/(?:^|\/)tests?\//.test(file));
  return programs.flatMap(([file, text]) =>
    text.split('\n').flatMap((content, index) =>
      [...content.matchAll(PAGE)].flatMap(([mention]) => {
        const [target = '', anchor] = mention.split('#');
        const own = path.posix.join(path.posix.dirname(file), target);
        const place = [target, own].find((one) => paths.has(one));
        const problem = { page: file, line: index + 1 };
        if (place === undefined) return [{ ...problem, what: `${mention}: no file ${target}` }];
        const anchors = pages.get(place)?.headings.map((heading) => heading.anchor) ?? [];
        if (anchor === undefined || anchors.includes(anchor)) return [];
        return [{ ...problem, what: `${mention}: no heading for #${anchor}` }];
      }),
    ),
  );
}

const CITED = /\[[^\]]*#(\d+)\]\((\S+?)\)/g;

/** An issue or pull request is cited by a link to it, or with its repository: a number alone names nothing. */
export function citationProblems(page: Page): Problem[] {
  return page.prose.flatMap(({ line, text }) => {
    const prose = text.replaceAll(/`[^`]*`/g, '');
    const wrong = [...prose.matchAll(CITED)]
      .filter(([, number = '', url = '']) => !url.endsWith(`/${number}`))
      .map(([, number = '', url = '']) => `#${number} is a link to ${url}`);
    const bare = prose.replaceAll(CITED, '').match(/(?<![\w/])#\d+/g) ?? [];
    const problems = [...wrong, ...bare.map((number) => `${number} names no repository`)];
    return problems.map((what) => ({ page: page.file, line, what }));
  });
}

const FILE = /^[\w.@*<>{},/-]*[\w*}>-]\.(?:ts|mjs|cjs|py|sh|md|ya?ml|jsonl?|toml|png|txt)$/;

/** Paths in code font: of files, and of folders that begin with a folder of the root. */
export function pathProblems(
  page: Page,
  { repository, foreign }: { repository: Repository; foreign: ReadonlySet<string> },
): Problem[] {
  return page.spans.flatMap(({ line, text }) => {
    const [first = ''] = text.split('/');
    const isBelowRoot =
      text.includes('/') &&
      repository.paths.has(first) &&
      /^[\w.@*<>-]+(?:\/[\w.@*<>-]*)+$/.test(text);
    if (!isBelowRoot && !FILE.test(text)) return [];
    if (foreign.has(text) || isThere(text, { page, repository })) return [];
    return [{ page: page.file, line, what: `\`${text}\`: no such file or folder` }];
  });
}

/**
 * From the root, from the page's folder, or (a name alone) anywhere. `*` and `<name>` stand for any name. A file of data
 * may be one that a program writes: then a program names it.
 */
function isThere(
  text: string,
  { page, repository: { paths, sources } }: { page: Page; repository: Repository },
): boolean {
  const place = text.replace(/\/$/, '');
  const own = path.posix.join(path.posix.dirname(page.file), place);
  const patterns = [`^${asPattern(own)}$`, `(?:^|/)${asPattern(place)}$`].map(
    (pattern) => new RegExp(pattern),
  );
  if ([...paths].some((found) => patterns.some((pattern) => pattern.test(found)))) return true;
  if (!/\.(?:jsonl?|npz)$/.test(place)) return false;
  const written = place.replace(/^.*[/>*]/, '');
  return [...sources.values()].some((source) => source.includes(written));
}

const asPattern = (text: string): string =>
  text
    .split(/\*|<[^>]*>/)
    .map((part) => part.replaceAll(/[.+^${}()|[\]\\]/g, String.raw`\$&`))
    .join('[^/]*');
