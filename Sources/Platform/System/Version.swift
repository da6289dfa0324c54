// The version of this package, which the command line, the server and the libraries tell.

/// By semantic versioning: what is documented of the command line, of HTTP, of `lib_mlx.h` and of the product `MLXServe`
/// keeps working until the first number changes (the second, while the first is 0).
package enum Version {
  package static let text = "0.1.0"
}
