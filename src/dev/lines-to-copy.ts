import { existsSync } from 'node:fs';
import path from 'node:path';
import { shellWord } from '../platform/command.js';
import { PROJECT_ROOT } from '../platform/project-root.js';
import type { TemporalCli } from './temporal-cli.js';

/** Variables of the user's shell that would lead its commands to another server. */
const IN_THE_WAY = /^TEMPORAL_(?:PROFILE|API_KEY|TLS.*|GRPC_META_.*)$/;

export interface CopyOptions {
  /** The folder of the deployment: paths of commands are relative to it. */
  root: string;
  address: string;
  namespace: string;
  cli: TemporalCli;
  env: NodeJS.ProcessEnv;
}

/** Lines that connect another shell to this stack: its folder, its address, and names for programs that are not on its path. */
export function linesToCopy({ root, address, namespace, cli, env }: CopyOptions): string[] {
  const inTheWay = Object.keys(env).filter((name) => IN_THE_WAY.test(name));
  const main = path.join(PROJECT_ROOT, 'dist', 'src', 'cli', 'main.js');
  return [
    `cd ${shellWord(root)}`,
    ...(inTheWay.length === 0 ? [] : [`unset ${inTheWay.join(' ')}`]),
    `export TEMPORAL_ADDRESS=${address}`,
    ...((env['TEMPORAL_NAMESPACE'] ?? namespace) === namespace
      ? []
      : [`export TEMPORAL_NAMESPACE=${namespace}`]),
    ...(cli.source === 'PATH' ? [] : [alias('temporal', [cli.path])]),
    ...(isOnPath('temporal-rollout', env) ? [] : [alias('temporal-rollout', ['node', main])]),
  ];
}

/**
 * A command on as many lines as `columns` need, each but the last with a backslash: a terminal that breaks it would do
 * so in the middle of a path. It is broken before options alone.
 */
export function commandLines(command: string, columns: number): string[] {
  const lines: string[] = [];
  for (const part of command.split(/ (?=--)/)) {
    const last = lines.at(-1);
    // Room for the backslash that a further part may need.
    const joins = last !== undefined && last.length + 1 + part.length + 2 <= columns;
    if (joins) lines[lines.length - 1] = `${last} ${part}`;
    else lines.push(last === undefined ? part : `  ${part}`);
  }
  return lines.map((line, i) => (i < lines.length - 1 ? `${line} \\` : line));
}

const alias = (name: string, command: readonly string[]): string =>
  `alias ${name}=${shellWord(command.map(shellWord).join(' '))}`;

const isOnPath = (program: string, env: NodeJS.ProcessEnv): boolean =>
  (env['PATH'] ?? '')
    .split(path.delimiter)
    .some((folder) => folder !== '' && existsSync(path.join(folder, program)));
