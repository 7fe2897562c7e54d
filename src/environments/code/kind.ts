import path from 'node:path';
import { defineKind, inJavaScript } from '../kind.js';
import { createCode } from './environment.js';
import { createLocalSandbox } from './local-sandbox.js';
import { CodeSettings } from './settings.js';

export const code = defineKind({
  settings: CodeSettings,
  answers: () => 'on this machine',
  roles: ['environment'],
  resolve: (settings, directory) => {
    const { python } = settings;
    const isPath = python?.includes(path.sep) === true;
    return isPath ? { ...settings, python: path.resolve(directory, python) } : settings;
  },
  make: inJavaScript((settings: CodeSettings, { report }) =>
    createCode(settings, createLocalSandbox({ settings, report })),
  ),
});
