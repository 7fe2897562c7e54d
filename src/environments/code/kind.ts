import path from 'node:path';
import { tokenOf } from '../http/token.js';
import { defineKind, inJavaScript } from '../kind.js';
import { createCode } from './environment.js';
import { CodeSettings } from './settings.js';

export const code = defineKind({
  settings: CodeSettings,
  answers: ({ url }) => (url === null ? 'on this machine' : 'a service'),
  roles: ['environment'],
  resolve: (settings, directory) => {
    const { python } = settings;
    const isPath = python?.includes(path.sep) === true;
    return isPath ? { ...settings, python: path.resolve(directory, python) } : settings;
  },
  make: inJavaScript((settings: CodeSettings, context) =>
    createCode(settings, { ...context, token: tokenOf(settings, context) }),
  ),
});
