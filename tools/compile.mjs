import path from 'node:path';
import { filesBelow } from './fingerprint.mjs';

const COMMON = ['src', 'viewer', 'dev', 'simulator', 'tools/temporal-cli', 'gym'];
/** What is in `dist`, and what is in `.lab`, whose programs use the tests' fakes. */
export const PROGRAMS = [...COMMON, 'lab/demos'];
export const LAB = [...COMMON, 'lab', 'test'];
const OF_NO_PROGRAM = /^(?:gym\/test|viewer\/page)\//;

/** The files below some folders of the project, as paths below `root`. */
export const filesOf = (root, folders) =>
  folders.flatMap((folder) =>
    filesBelow(path.join(root, folder)).map((file) => `${folder}/${file}`),
  );

export const programFiles = (root, folders) =>
  filesOf(root, folders).filter((file) => !OF_NO_PROGRAM.test(file));

export const OPTIONS = { format: 'esm', platform: 'node', target: 'node20', logLevel: 'silent' };

/**
 * Compiles TypeScript file by file, in a second or two, into a folder that mirrors the project's. Types are not checked
 * (`npm run typecheck` does).
 */
export async function compile({ root, files, outdir, ...options }) {
  const { build } = await import('esbuild');
  await build({
    absWorkingDir: root,
    entryPoints: files.filter((file) => file.endsWith('.ts')),
    outbase: '.',
    outdir,
    ...OPTIONS,
    ...options,
  });
}
