// What the kernels' twins use of the module Platform, where there is no operating system to build for: libm.

@_silgen_name("exp")
package func exp(_ x: Double) -> Double
@_silgen_name("log1p")
package func log1p(_ x: Double) -> Double
@_silgen_name("tanh")
package func tanh(_ x: Double) -> Double
@_silgen_name("erfc")
package func erfc(_ x: Double) -> Double
