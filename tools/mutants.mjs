/**
 * Whether the tests see small faults: `node tools/mutants.mjs [part of a mutant's name …]`. Puts each mutant of
 * test/mutants.ts into the compiled copy of the project, never into a source, plays the tests that it names, and prints
 * which of them fail. Fails if a mutant survives, or if tests fail without one.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { compileTests, compileText } from './compile-tests.mjs';
import { playFiles, sourceOfEvent, testFilesOf } from './play-files.mjs';
import { tierOf } from './test-groups.mjs';

const root = fileURLToPath(new URL('../', import.meta.url));
/** A fault may make a test wait for ever. */
const TIMEOUT_MS = 60_000;
/** So many names show that a mutant is killed, and by what. */
const MOST_NAMED = 2;

const words = process.argv.slice(2);
const files = testFilesOf(root).filter((file) => tierOf(file) === 'unit');
const compiled = await compileTests(root);
const sourceOf = sourceOfEvent({ root, compiled });
try {
  process.exitCode = (await main()) ? 0 : 1;
} finally {
  rmSync(compiled, { recursive: true });
}

/** Whether all is well. */
async function main() {
  const { MUTANTS } = await import(pathToFileURL(path.join(compiled, 'test', 'mutants.js')));
  const chosen = MUTANTS.filter(
    ({ name }) => words.length === 0 || words.some((word) => name.includes(word)),
  ).map((mutant) => ({ ...mutant, text: mutantText(mutant), files: filesFor(mutant) }));
  if (chosen.length === 0) throw new Error(`no mutant's name contains ${words.join(' or ')}`);

  // A test that fails anyway would kill every mutant.
  const before = await failuresIn([...new Set(chosen.flatMap((mutant) => mutant.files))]);
  if (before.length > 0) {
    console.error(`these fail without any mutant:\n${before.join('\n')}`);
    return false;
  }
  console.log('| mutant | file | failed by (file › test) |');
  console.log('| --- | --- | --- |');
  let survived = 0;
  for (const mutant of chosen) {
    const failures = await failuresWith(mutant);
    if (failures.length === 0) survived += 1;
    const shown = failures.length === 0 ? ['SURVIVED'] : failures.slice(0, MOST_NAMED);
    console.log(`| ${[mutant.name, mutant.file, shown.join('; ')].map(cell).join(' | ')} |`);
  }
  console.log(`\n${chosen.length - survived} of ${chosen.length} mutants killed`);
  return survived === 0;
}

/** The source with the fault in it. */
function mutantText({ name, file, find, replace }) {
  const parts = readFileSync(path.join(root, file), 'utf8').split(find);
  if (parts.length !== 2)
    throw new Error(
      `mutant "${name}": expected its text once in ${file}, found it ${parts.length - 1} times`,
    );
  return parts.join(replace);
}

function filesFor({ name, tests }) {
  const lost = tests.find((word) => !files.some((file) => file.includes(word)));
  if (lost !== undefined)
    throw new Error(`mutant "${name}": no test file's path contains "${lost}"`);
  return files.filter((file) => tests.some((word) => file.includes(word)));
}

async function failuresWith({ file, text, files }) {
  const target = path.join(compiled, file.replace(/\.ts$/, '.js'));
  const whole = readFileSync(target);
  writeFileSync(target, await compileText(text, path.join(root, file)));
  try {
    return await failuresIn(files);
  } finally {
    writeFileSync(target, whole);
  }
}

/** The tests that fail, each as `file › name`. */
async function failuresIn(files) {
  const { code, lines } = await playFiles({
    root,
    job: {
      files: files.map((file) => path.join(compiled, file.replace(/\.ts$/, '.js'))),
      concurrency: 2 * availableParallelism(),
      timeout: TIMEOUT_MS,
      quiet: true,
    },
  });
  const failed = lines.filter((line) => line.failed);
  // A test around the one that fails says nothing more.
  const own = failed.filter((line) => line.itself);
  const named = (own.length > 0 ? own : failed).map(({ test, name }) =>
    path.isAbsolute(name) ? `${sourceOf(test)} › the file itself` : `${sourceOf(test)} › ${name}`,
  );
  return named.length > 0 || code === 0 ? named : [`the runner ended with ${code}`];
}

/** What a cell of a table can hold. */
function cell(text) {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ');
}
