/**
 * Bundles the viewer's page: `node tools/build-page.mjs FOLDER` writes page.js and page.css there. Browsers of the last
 * two years run it.
 */
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const page = fileURLToPath(new URL('../viewer/page/', import.meta.url));

await build({
  entryPoints: [path.join(page, 'main.tsx'), path.join(page, 'page.css')],
  entryNames: 'page',
  outdir: process.argv[2],
  tsconfig: path.join(page, 'tsconfig.json'),
  bundle: true,
  minify: true,
  format: 'iife',
  target: 'es2023',
  charset: 'utf8',
  legalComments: 'none',
  logLevel: 'warning',
});
