import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { isMissing } from '../src/platform/files.js';
import { PROJECT_ROOT } from '../src/platform/project-root.js';

/** The HTML around the page: in a report all of it, from a server the page's own files by their addresses. */

/** The page as the build has bundled it. */
export interface Bundle {
  js: string;
  css: string;
}

const FOLDER = path.join(PROJECT_ROOT, 'dist', 'viewer');

export async function readBundle(folder = FOLDER): Promise<Bundle> {
  const read = (name: string): Promise<string> => readFile(path.join(folder, name), 'utf8');
  try {
    const [js, css] = await Promise.all([read('page.js'), read('page.css')]);
    return { js, css };
  } catch (cause) {
    if (!isMissing(cause)) throw cause;
    throw new Error(
      `expected page.js and page.css in ${folder}, which npm run build makes, they are not there`,
      { cause },
    );
  }
}

const END = '</body>';

/** `head`: how the page's style and script come. */
function shellOf({ title, head }: { title: string; head: string }): string {
  return `${headOf(title)}${head}\n</head>\n<body>\n<div id="page"></div>\n${END}\n</html>\n`;
}

const headOf = (title: string): string =>
  [
    '<!doctype html>',
    '<html lang="en">',
    '<head>',
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="referrer" content="no-referrer">',
    // Before the page's own colours are there, and where none come.
    '<meta name="color-scheme" content="light dark">',
    // Else a browser asks for one.
    '<link rel="icon" href="data:,">',
    `<title>${escaped(title)}</title>`,
    '',
  ].join('\n');

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** Nothing is loaded, sent or embedded but what is named. */
const policyOf = (allowed: Record<string, string>): string =>
  Object.entries({
    'default-src': "'none'",
    'img-src': 'data:',
    ...allowed,
    'base-uri': "'none'",
    'form-action': "'none'",
  })
    .map(([what, from]) => `${what} ${from}`)
    .join('; ');

/** Where a server gives out the page. */
export const SERVED_POLICY = policyOf({
  'script-src': "'self'",
  'style-src': "'self'",
  'connect-src': "'self'",
  'frame-ancestors': "'none'",
});

export const SERVED_SHELL = shellOf({
  title: 'Rollouts',
  head: '<link rel="stylesheet" href="/page.css">\n<script src="/page.js" defer></script>',
});

/** A page that says one thing and needs nothing. */
export const notice = (title: string, text: string): string =>
  `${headOf(title)}</head>\n<body>\n<h1>${escaped(title)}</h1>\n<p>${escaped(text)}</p>\n</body>\n</html>\n`;

/** A file that needs no other: what stands before its documents, and behind them. */
export function aroundReport(
  { js, css }: Bundle,
  title: string,
): { before: string; after: string } {
  const script = inScript(js);
  const style = css.replaceAll('</style', String.raw`<\/style`);
  const policy = policyOf({ 'script-src': hashOf(script), 'style-src': hashOf(style) });
  const head = `<meta http-equiv="Content-Security-Policy" content="${policy}">\n<style>${style}</style>`;
  const shell = shellOf({ title, head });
  const [before = '', after = ''] = shell.split(END);
  return { before, after: `<script>${script}</script>\n${END}${after}` };
}

/** In strings and patterns of a script, where alone these stand, `\x3c` is the same letter. */
const inScript = (js: string): string => js.replace(/<(?=!--|\/?script)/gi, String.raw`\x3c`);

/** As a browser computes it: over the text between the tags. */
const hashOf = (text: string): string =>
  `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
