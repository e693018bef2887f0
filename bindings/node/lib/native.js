'use strict';
// The addon: built here, or from the package of this platform. The paths are literal, and each `require` is in a `try`: so bundlers find the
// files that are there, and do not insist on the others.

const { existsSync } = require('node:fs');
const path = require('node:path');

const { SCOPE, TARGETS, target } = require('./targets.js');

function built() {
  try {
    return require('../windrow.node');
  } catch (error) {
    return unlessThere(error);
  }
}

/** @param {string} name */
function prebuilt(name) {
  try {
    switch (name) {
      case 'linux-x64':
        return require('@windrow-rs/linux-x64/windrow.node');
      case 'linux-arm64':
        return require('@windrow-rs/linux-arm64/windrow.node');
      case 'linux-x64-musl':
        return require('@windrow-rs/linux-x64-musl/windrow.node');
      case 'linux-arm64-musl':
        return require('@windrow-rs/linux-arm64-musl/windrow.node');
      case 'darwin-x64':
        return require('@windrow-rs/darwin-x64/windrow.node');
      case 'darwin-arm64':
        return require('@windrow-rs/darwin-arm64/windrow.node');
      case 'win32-x64':
        return require('@windrow-rs/win32-x64/windrow.node');
      default:
        return undefined;
    }
  } catch (error) {
    return unlessThere(error);
  }
}

/**
 * Nothing, for a file that is not there. One that is there and cannot be loaded is an error.
 * @param {unknown} error
 */
function unlessThere(error) {
  if (/** @type {any} */ (error).code !== 'MODULE_NOT_FOUND') {
    throw error;
  }
}

/** @param {string} name */
function missing(name) {
  const root = path.join(__dirname, '..');
  const build = `build it with Rust: node ${path.join(root, 'scripts', 'build.js')}`;
  if (existsSync(path.join(root, 'Cargo.toml'))) {
    return new Error(`windrow has no addon for ${name} yet\nhint: ${build}`);
  }
  if (TARGETS.includes(name)) {
    const hint = 'install windrow again, with optional dependencies; a bundler must copy the addon (README, Bundlers)';
    return new Error(`windrow's addon is missing: the package ${SCOPE}/${name} is not installed\nhint: ${hint}`);
  }
  const hint = 'choose one of these platforms, or build the addon with Rust in a clone of the repository';
  return new Error(`windrow has no addon for ${name}, only for ${TARGETS.join(', ')}\nhint: ${hint}`);
}

function load() {
  const addon = built();
  if (addon !== undefined) {
    return addon;
  }
  const name = target();
  const found = prebuilt(name);
  if (found === undefined) {
    throw missing(name);
  }
  return found;
}

module.exports = load();
