import path from 'node:path';
import type { Page, Piece, Problem } from './page.js';
import type { Repository } from './repository.js';

/** Whether commands, their options, and the files that they run exist. */

export interface Commands {
  /** Help texts of `temporal-rollout`. */
  usages: Readonly<Record<string, string>>;
  /** Options of other programs that pages speak of. */
  foreign: ReadonlySet<string>;
  /** Types of workflows. */
  workflows: ReadonlySet<string>;
}

interface Known extends Commands {
  page: Page;
  repository: Repository;
}

/** What npm itself does. */
const NPM = new Set(['start', 'test', 'ci', 'install', 'link', 'audit']);
const OPTION = /^--[a-z][\w-]*/;
const OPTIONS = /(?<![\w-])--[a-z][\w-]*/g;

export function commandProblems(
  page: Page,
  given: Commands & { repository: Repository },
): Problem[] {
  const known = { ...given, page };
  const pieces: Piece[] = [...page.spans, ...page.code.filter(isShell)];
  return pieces.flatMap(({ line, text }) =>
    commandsIn(text).flatMap((words) =>
      problemsOf(words, known).map((what) => ({ page: page.file, line, what })),
    ),
  );
}

export const isShell = ({ language }: { language: string }): boolean =>
  ['', 'sh', 'bash'].includes(language);

/** The words of each command, without assignments before it and what follows ` # `. */
export function commandsIn(text: string): string[][] {
  const [code = ''] = text.replace(/^#.*/, '').split(/\s#\s/);
  const whole = code.replaceAll(/'[^']*'|"[^"]*"/g, (quoted) => quoted.replaceAll(/[\s;|&]/g, '_'));
  return whole.split(/&&|\|\||;|\s\|\s|\s&$/).map((command) => {
    const words = command.trim().split(/\s+/);
    const first = words.findIndex((word) => !/^[A-Z_]+=/.test(word) && word !== '$');
    return first === -1 ? [] : words.slice(first);
  });
}

function problemsOf(words: readonly string[], known: Known): string[] {
  const [program = '', ...args] = words;
  if (program === 'npm') return npmProblems(args, known);
  if (program === 'temporal-rollout') return ownProblems(args, known);
  if (program === 'npx') return problemsOf(args, known);
  if (program === 'temporal') return temporalProblems(args, known);
  if (program === 'node' && args[0]?.endsWith('dist/src/cli/main.js') === true)
    return ownProblems(args.slice(1), known);
  if (program === 'node' || /^python3?$/.test(program)) return runProblems(args, known);
  if (OPTION.test(program)) return optionProblems(words, known);
  return [];
}

/** The options of one program: `source` has its help text, or its code. */
function unknownOptions(args: readonly string[], source: string): string[] {
  const options = new Set(source.match(OPTIONS) ?? []);
  const declared = (name: string): boolean =>
    new RegExp(`^ *'?${name}'?: \\{`, 'm').test(source) ||
    new RegExp(`[{,(] *'?${name}'?: \\{`).test(source);
  return args
    .map((arg) => OPTION.exec(arg)?.[0])
    .filter((option) => option !== undefined)
    .filter((option) => option !== '--help' && !options.has(option) && !declared(option.slice(2)));
}

function npmProblems(args: readonly string[], { repository, usages }: Known): string[] {
  const [verb = '', next = ''] = args;
  const isRun = verb === 'run';
  const script = isRun ? next : verb;
  if (isRun ? !(script in repository.scripts) : script !== '' && !NPM.has(script))
    return [`npm ${args.join(' ')}: no script ${JSON.stringify(script)} in package.json`];
  const behind = args.indexOf('--');
  if (behind === -1) return [];
  const unknown = unknownOptions(args.slice(behind + 1), sourceOf(script, { repository, usages }));
  return unknown.map((option) => `npm ${args.join(' ')}: ${script} has no ${option}`);
}

/** Where a script's options are declared: the usage of a command, or the programs that it runs. */
function sourceOf(script: string, { repository, usages }: Pick<Known, 'repository' | 'usages'>) {
  const line = repository.scripts[script] ?? '';
  const [, command] = /dist\/src\/cli\/main\.js (\S+)/.exec(line) ?? [];
  if (command !== undefined) return usages[command] ?? '';
  const programs = [...line.matchAll(/\.lab\/(\S+)\.js|(tools\/run-tests\.mjs)/g)];
  return programs
    .map(([, made, tool]) => sourcesBeside(tool ?? `${made ?? ''}.ts`, repository))
    .join('\n');
}

function ownProblems([command = '', ...args]: readonly string[], { usages }: Known): string[] {
  if (!/^[a-z]/.test(command)) return [];
  const usage = usages[command];
  if (usage === undefined) return [`temporal-rollout has no command ${JSON.stringify(command)}`];
  const [sub = ''] = args;
  const takesSub = new RegExp(`temporal-rollout ${command} [a-z]+ ?`).test(usage);
  if (takesSub && /^[a-z]+$/.test(sub) && !usage.includes(`temporal-rollout ${command} ${sub}`))
    return [`temporal-rollout ${command} has no ${JSON.stringify(sub)}`];
  return unknownOptions(args, `${usage}\n--config`).map(
    (option) => `temporal-rollout ${command} has no ${option}`,
  );
}

/** Names that the Temporal CLI passes on. */
function temporalProblems(args: readonly string[], { workflows, repository }: Known): string[] {
  const valueOf = (option: string): string | undefined => args[args.indexOf(option) + 1];
  const isQuery = args[1] === 'query';
  const problems: string[] = [];
  if (args.includes('--type')) {
    const type = valueOf('--type') ?? '';
    const isKnown = isQuery ? repository.words.has(type) : workflows.has(type);
    if (!isKnown) problems.push(`no workflow has a type or a query ${JSON.stringify(type)}`);
  }
  for (const option of ['--name', '--update-name']) {
    if (!args.includes(option)) continue;
    const name = valueOf(option) ?? '';
    if (!repository.words.has(name))
      problems.push(`no workflow has an update or signal ${JSON.stringify(name)}`);
  }
  return problems;
}

/** Files that Node.js or Python run, and a module's options. */
function runProblems(args: readonly string[], { page, repository }: Known): string[] {
  const { paths, sources } = repository;
  const asModule = args.indexOf('-m');
  if (asModule !== -1) {
    const module = args[asModule + 1] ?? '';
    const [name] = module.split('.');
    if (name === 'venv' || name === 'verl' || name === 'skyrl') return [];
    if (!paths.has(`python/${module.replaceAll('.', '/')}`))
      return [`no Python package ${JSON.stringify(module)}`];
    const source = [...sources]
      .filter(([file]) => file.startsWith(`python/${name}/`))
      .map(([, text]) => text)
      .join('\n');
    return unknownOptions(args.slice(asModule + 2), source).map(
      (option) => `${module} has no ${option}`,
    );
  }
  const at = args.findIndex((word) => /\.(?:mjs|ts|js|py)$/.test(word));
  if (at === -1) return [];
  const file = (args[at] ?? '').replace(/^dist\/(.*)\.js$/, '$1.ts').replace(/^\.?\//, '');
  const found = [file, path.posix.join(path.posix.dirname(page.file), file)].find((place) =>
    paths.has(place),
  );
  if (found === undefined) return [`${args.join(' ')}: no file ${file}`];
  const unknown = unknownOptions(args.slice(at + 1), sourcesBeside(found, repository));
  return unknown.map((option) => `${found} has no ${option}`);
}

const sourcesBeside = (file: string, { sources }: Repository): string =>
  [...sources]
    .filter(([other]) => path.posix.dirname(other) === path.posix.dirname(file))
    .map(([, text]) => text)
    .join('\n');

/** An option alone: of some program of ours, or of one that pages speak of. */
const optionProblems = (words: readonly string[], { repository, foreign }: Known): string[] =>
  unknownOptions(words, '')
    .filter((option) => !repository.options.has(option) && !foreign.has(option))
    .map((option) => `no program has ${option}`);
